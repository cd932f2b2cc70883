"""Where to go next: pilot surveys, planners, and when a waypoint counts as reached."""
