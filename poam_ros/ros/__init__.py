"""ROS 2: a module for each node, and what they share: messages, parameters, inputs, RViz."""
