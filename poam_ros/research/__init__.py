"""The paper's experiments: sweeps of missions in lock-step. Nothing on a vehicle imports it."""
