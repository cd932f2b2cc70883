"""The simulated world: terrain, vehicle, sonar. NumPy alone."""
