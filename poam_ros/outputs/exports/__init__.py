"""Export of a run's map for other programs; ``formats.py`` has the table of formats."""
