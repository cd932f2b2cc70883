"""An ArduPilot vehicle over MAVLink, for ``poam drive``."""
