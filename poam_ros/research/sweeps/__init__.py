"""Sweeps of missions in lock-step: configuration, runs, tables, figures."""
