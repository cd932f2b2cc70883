"""Probabilistic Online Attentive Mapping: a sonar map that steers the vehicle which makes it."""

__version__ = "0.1.0"
