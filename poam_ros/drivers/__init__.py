"""Those that feed the survey: a thread, lock-step, a replay."""
