"""Frozen values that pass between packages, and what every package needs. No torch, no rclpy."""
