"""The node mavlink: an ArduPilot vehicle on the ordinary topics."""
