"""Where to go next: pilot surveys, planners, navigable areas and routes."""
