"""A survey that is killed at random moments and restarted each time: nothing is lost. Some pings
are false echoes, so that some are always held.

The same over real topics, fifty times: test/ros/test_killed_nodes.py.
"""

import random
import signal
import subprocess
import time

import numpy as np
from kept import rebuilt, rows

KILLS = 1
#: Stamps skipped while it is dead: more than it may have received after its last output.
GAP = 1000


def survey(folder, begin, end, python, ros_env, request, kill_after=None):
    """One life: what it said others may rely on, and the last stamp that it heard."""
    script = request.config.rootpath / "test" / "kept.py"
    arguments = [python, str(script), str(folder), str(begin), str(end)]
    life = subprocess.Popen(arguments, env=ros_env, stdout=subprocess.PIPE, text=True)
    began = life.stdout.readline()  # it has opened the folder
    assert began.startswith("began"), began
    if kill_after is not None:
        time.sleep(kill_after)
        life.send_signal(signal.SIGKILL)
    said, _ = life.communicate(timeout=300)
    assert kill_after is not None or life.returncode == 0
    counts = [int(began.split()[1])]
    stamp = begin
    for count, at in (line.split() for line in said.splitlines()):
        counts, stamp = [*counts, int(count)], int(at)
    return counts, stamp


def test_a_survey_killed_many_times_loses_no_ping_that_counted(tmp_path, python, ros_env, request):
    seed = random.randrange(10**6)
    draw = random.Random(seed)
    told, stamp = [0], 0
    for _ in range(KILLS):
        counts, stamp = survey(
            tmp_path, stamp, 10**6, python, ros_env, request, draw.uniform(0.05, 1.5)
        )
        assert counts[0] >= told[-1], (seed, "fewer pings are stored")
        assert counts == sorted(counts), seed
        told, stamp = counts, stamp + GAP
        assert len(rows(tmp_path)) >= told[-1], seed
    # Long enough for 60 pings by itself: on a busy machine the others may be killed before any.
    counts, stamp = survey(tmp_path, stamp, stamp + 240, python, ros_env, request)
    assert counts[0] >= told[-1], seed
    found = rows(tmp_path)
    assert [row[0] for row in found] == list(range(len(found))), seed
    assert len(found) == counts[-1] >= 60, seed
    assert rows(tmp_path, "SELECT * FROM pings WHERE verdict != 1"), seed
    stamps = [row[1] for row in found]
    assert len(set(stamps)) == len(stamps), (seed, "a ping is there twice")
    (whole, count), (alone, _) = rebuilt(tmp_path)
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6, err_msg=str(seed))
    assert count > 0
