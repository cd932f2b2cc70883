"""The nodes."""
