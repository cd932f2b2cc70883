"""From events (odometry, pings, states) to samples and refusals. No ROS, no torch."""
