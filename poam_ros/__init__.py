"""Probabilistic Online Attentive Mapping: a sonar map that steers the vehicle which makes it."""

import os

__version__ = "0.1.0"

# Before torch starts its OpenMP: threads that spin while they wait for work take the processor from
# everything else on a vehicle, and a step of 0.1 s can then take seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
