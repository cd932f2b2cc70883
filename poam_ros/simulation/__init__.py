"""Missions in lock-step over a simulated world."""
