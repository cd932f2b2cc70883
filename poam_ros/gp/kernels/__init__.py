"""Covariance functions: the base, the Attentive Kernel and others; compiled where they can be."""
