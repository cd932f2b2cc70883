"""Process settings of entry points."""

import subprocess

import pytest

PROBE = """
import torch
from threadpoolctl import threadpool_info
from poam_ros.core.process import configure_process
configure_process(1)
pools = [pool["num_threads"] for pool in threadpool_info()]
assert torch.get_num_threads() == 1 and pools and set(pools) == {1}, (pools,)
"""


@pytest.mark.slow
def test_the_number_of_threads_is_set(python, ros_env):
    env = {name: value for name, value in ros_env.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([python, "-c", PROBE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
