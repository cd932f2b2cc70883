"""A mission on an ArduPilot vehicle over MAVLink, without ROS."""
