"""Opening RViz with a layout that fits the survey."""
