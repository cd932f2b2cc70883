"""The measurement of latencies, with real nodes, for a few seconds."""

import json
import subprocess

import pytest

pytest.importorskip("rclpy")

pytestmark = [pytest.mark.ros, pytest.mark.slow]


def test_the_profile_of_the_nodes_counts_messages(ros_env, python):
    command = [python, "-m", "poam_ros.app.cli", "profile", "--nodes", "3", "--json"]
    done = subprocess.run(
        command, env=ros_env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["odometry"]["count"] > 100
    assert result["ping_to_map"]["count"] >= 1
    for name in ("odometry", "ping_to_map", "publish"):
        spread = result[name]
        assert 0 < spread["median_s"] <= spread["p99_s"] <= spread["worst_s"]
    # No map comes before its own update and prediction are done.
    assert result["ping_to_map"]["worst_s"] > result["update"]["median_s"]
