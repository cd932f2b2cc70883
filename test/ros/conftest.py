"""What the tests of nodes share."""

import pytest


@pytest.fixture
def brisk(monkeypatch):
    """The planner checks and reports five times as often, and data need less time to be back."""
    for name, seconds in (("ros.planner.POLL_PERIOD_S", 0.2), ("ros.planner.REPORT_PERIOD_S", 0.2),
                          ("mission.states.RECOVERY_S", 0.3)):  # fmt: skip
        monkeypatch.setattr(f"poam_ros.{name}", seconds)
