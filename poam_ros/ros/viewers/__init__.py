"""Live views of a mission: the node drapes for RViz and Foxglove, the graph for `poam view`."""
