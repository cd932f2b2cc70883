"""ROS 2: messages, parameters, transforms, diagnostics, and a package for each node."""
