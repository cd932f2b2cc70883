"""ROS 2: nodes, messages, parameters and `poam sim`. Thin; the maths is in the other rooms."""
