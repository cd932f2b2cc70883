"""An ArduPilot vehicle over MAVLink: for ``poam drive`` and for the node mavlink."""
