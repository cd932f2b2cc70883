"""Nodes and readers for people who watch: RViz, Foxglove, the page."""
