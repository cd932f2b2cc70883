"""From soundings to a map: calibration, exclusions, crossings, outline, learning, in parallel."""
