"""The paper's sparse Gaussian processes: POAM and every method it is compared with."""
