"""The mission: states, goals, budget, watchdog, target."""
