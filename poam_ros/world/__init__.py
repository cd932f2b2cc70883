"""The simulated world: terrain, vehicle, sonar. numpy alone."""
