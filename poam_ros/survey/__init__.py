"""The ring without ROS: odometry, pings and states in; samples, maps and refusals out."""
