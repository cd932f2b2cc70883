"""The monitor node."""
