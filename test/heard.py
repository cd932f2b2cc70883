"""What tests read from messages that only people read."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray


def status_values(message: DiagnosticArray, name: str) -> dict[str, str]:
    """The values of the status whose name ends with ``name``; empty where there is none."""
    for status in message.status:
        if status.name.endswith(name):
            return {item.key: item.value for item in status.values}
    return {}
