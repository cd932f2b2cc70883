"""Inducing-point Gaussian processes that learn online: the paper's methods."""
