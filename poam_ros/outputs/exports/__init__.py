"""A run's map as files that other programs read; ``formats.py`` has the table of them."""
