"""A nearest-neighbour Gaussian process with a rough, non-stationary, anisotropic kernel."""
