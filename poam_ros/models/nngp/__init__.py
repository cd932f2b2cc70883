"""The nearest-neighbour Gaussian process."""
