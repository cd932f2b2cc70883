"""The model loop: screens, updates, draws, checkpoints and recovers."""
