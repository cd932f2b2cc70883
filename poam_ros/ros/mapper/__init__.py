"""The mapper node."""
