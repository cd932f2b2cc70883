"""Missions in lock-step, what they are judged by, and what they leave. Never imports rclpy."""
