"""From recorded logs to soundings, and from soundings to a map."""
