"""The planner node."""
