"""From recorded logs to soundings, one module for each kind of log."""
