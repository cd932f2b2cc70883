"""The kernels in C, and how they are called."""
