"""The paper's experiments and the benchmarks. Nothing on a vehicle imports it."""
