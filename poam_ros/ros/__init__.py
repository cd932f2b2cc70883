"""ROS 2: messages, parameters, transforms, diagnostics, and the nodes."""
