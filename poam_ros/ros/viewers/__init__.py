"""Opening RViz with a layout that fits the survey; the graph for `poam view`."""
