"""A replayed mission gives the same refused pings, samples and maps."""

import numpy as np
import pytest
from recorded import check_replayed, recorded

from poam_ros.frontend.events import BatchLearned
from poam_ros.models.registry import ModelSettings, SparseOptions
from poam_ros.screening import ScreeningSettings
from poam_ros.simulation.lockstep import LockstepMission
from poam_ros.simulation.settings import MissionSettings
from poam_ros.simulation.simulator import SonarSettings
from poam_ros.simulation.terrain import load_terrain

SMALL = ModelSettings(options=SparseOptions(num_inducing=60, steps=2, minibatch=32))
FAULTY = SonarSettings(dropout=0.1, outlier=0.05, nan=0.04, inf=0.06, latency=0.5)
ECHOES = SonarSettings(dropout=0.05, inf=0.05, false_echo=0.05, latency=0.5, max_range=800.0)
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("policy", "sonar", "screened"),
    [
        pytest.param("paper", SonarSettings(), False, marks=slow),
        pytest.param("deployed", SonarSettings(), False, marks=slow),
        pytest.param("paper", FAULTY, False, marks=slow),
        ("deployed", FAULTY, False),
        ("deployed", ECHOES, True),
    ],
)
def test_a_lockstep_mission(policy, sonar, screened):
    settings = MissionSettings(
        max_samples=400 if screened else 700, policy=policy, sonar=sonar, model=SMALL,
        screening=ScreeningSettings(enabled=screened),
    )  # fmt: skip
    mission = LockstepMission(load_terrain("seamounts"), settings)
    record = recorded(mission.session)
    epochs, ledger = list(mission.epochs()), mission.session.ledger
    counts = ledger.counts()
    assert counts["received"] == counts["accepted"] + counts["pending"] + counts["rejected"]
    if screened:
        withdrawn = len(mission.session.withdrawn)
        assert withdrawn > 10 and counts["accepted"] == withdrawn + epochs[-1].samples >= 400
    else:
        assert counts["accepted"] == 700 == epochs[-1].samples
        assert (ledger.rejected.total() > 50) == (sonar is FAULTY)
    again, outcomes = check_replayed(record, mission.session)
    learned = [o.report.samples for o in outcomes if isinstance(o, BatchLearned)]
    assert learned == [epoch.samples for epoch in epochs]
    np.testing.assert_array_equal(again.mapper.z, mission.mapper.z)
    at = mission.settings.workspace.sample(50, np.random.default_rng(0))
    expected, found = mission.mapper.predict(at), again.mapper.predict(at)
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.variance, expected.variance)
