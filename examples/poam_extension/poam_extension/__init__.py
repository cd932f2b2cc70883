"""A planner, a model and a reader for poam_ros."""
