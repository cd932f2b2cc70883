"""Factorisations with the one jitter policy, and the BLAS that they stand on."""
