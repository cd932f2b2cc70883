"""The poam command, the simulation without launch tools, and what launch files share."""
