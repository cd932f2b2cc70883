"""A mission in lock-step: Algorithm 1 of the paper, without ROS, reproducible by seed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import __version__
from ..errors import InputError
from ..geometry import Extent, Grid, map_grid
from ..gp.models import ModelSettings
from ..mapping import BathymetricMapper
from ..planning.arrival import GoalWatch
from ..planning.pilots import PILOTS, bezier_pilot, path_length, start_pose
from ..planning.planners import PLANNERS
from ..runs.folder import (
    EPOCH_COLUMNS,
    EpochRecord,
    make_folder,
    write_config,
    write_map,
    write_samples,
    write_table,
    write_truth,
)
from ..runs.metrics import evaluate
from ..world.simulation import Simulation, SonarSettings
from ..world.terrain import WORKSPACE, Terrain
from ..world.vehicle import Pose

log = logging.getLogger(__name__)

#: Points of the evaluation grid along each side (the paper's).
EVALUATION_POINTS = 50
#: m/s, of the vehicle.
MAX_SPEED = 1.0
#: The paper's random initialisation: samples from anywhere at once, and a random starting pose.
RANDOM_SAMPLES = "random-samples"
#: The pilots of a lock-step mission. No vehicle can take samples at random places, so the last is
#: not among ``PILOTS``.
MISSION_PILOTS = (*PILOTS, RANDOM_SAMPLES)


@dataclass(frozen=True)
class MissionSettings:
    """What makes a mission, but for its terrain. ``resolution``: of the final map, in m.
    ``planner_noise``: whether the planner's entropy is that of a ping, or of the ground alone."""

    planner: str = "max-entropy"
    pilot: str = "bezier"
    seed: int = 0
    max_samples: int = 5000
    workspace: Extent = WORKSPACE
    resolution: float = 0.5
    planner_noise: bool = True
    model: ModelSettings = field(default_factory=ModelSettings)
    sonar: SonarSettings = field(default_factory=SonarSettings)

    def __post_init__(self) -> None:
        for name, value, table in (
            ("planner", self.planner, PLANNERS),
            ("pilot", self.pilot, MISSION_PILOTS),
        ):
            if value not in table:
                raise InputError(f"{name}: expected one of {', '.join(table)}, got {value!r}")
        if self.max_samples < 1:
            raise InputError(f"max_samples: expected at least 1, got {self.max_samples}")
        map_grid(self.workspace, self.resolution)


class Mission:
    """The ring of the paper: sonar, model, planner and vehicle, each waiting for the other.

    Sonar, planner, pilot and model draw from generators of their own, spawned from one seed; so
    does the noise of random initial samples.
    """

    def __init__(self, terrain: Terrain, settings: MissionSettings) -> None:
        self.terrain = terrain
        self.settings = settings
        seeds = np.random.SeedSequence(settings.seed).spawn(5)
        sonar_seed, model_seed = (int(s.generate_state(1)[0]) for s in seeds[:2])
        self._planner_rng, self._pilot_rng, self._noise_rng = map(np.random.default_rng, seeds[2:])
        self.mapper = BathymetricMapper(settings.workspace, settings.model, seed=model_seed)
        self.simulation = Simulation(
            terrain,
            start=Pose(*self._start()),
            sonar=settings.sonar,
            max_speed=MAX_SPEED,
            seed=sonar_seed,
        )
        self._evaluation = Grid.nodes(settings.workspace, EVALUATION_POINTS, EVALUATION_POINTS)
        self._truth = terrain.elevation_at(self._evaluation.points)
        self._xy: list[tuple[float, float]] = []
        self._z: list[float] = []

    def epochs(self) -> Iterator[EpochRecord]:
        """Run the mission; one record per decision epoch, the pilot survey's first."""
        if self.settings.pilot == RANDOM_SAMPLES:
            self._sample_at_random()
        else:
            for waypoint in PILOTS[self.settings.pilot](self.settings.workspace, self._pilot_rng):
                self._drive(waypoint)
        if len(self._z) >= self.settings.max_samples:
            log.warning(
                "max_samples = %d ends the mission inside its pilot survey: nothing is explored",
                self.settings.max_samples,
            )
        yield self._learn()
        plan = PLANNERS[self.settings.planner]
        while self.mapper.samples < self.settings.max_samples:
            waypoint = plan(
                lambda xy: self.mapper.predict(xy, self.settings.planner_noise).variance,
                self.settings.workspace,
                self._position,
                self._planner_rng,
            )
            self._drive(waypoint)
            if self._z:
                yield self._learn()

    def _start(self) -> tuple[float, float, float]:
        """The pose (x, y, yaw) that the vehicle starts from."""
        workspace = self.settings.workspace
        if self.settings.pilot != RANDOM_SAMPLES:
            return start_pose(workspace)
        x, y = workspace.sample(1, self._pilot_rng)[0]
        return float(x), float(y), float(self._pilot_rng.uniform(-np.pi, np.pi))

    def _sample_at_random(self) -> None:
        """Uniform initial samples with the sonar's noise, before mission time begins.

        As many as the sonar takes on a way as long as the Bezier pilot's, within the budget.
        """
        settings, simulation = self.settings, self.simulation
        way = path_length(bezier_pilot(settings.workspace, self._pilot_rng))
        wanted = max(1, round(way / MAX_SPEED * settings.sonar.rate))
        xy = settings.workspace.sample(min(wanted, settings.max_samples), self._pilot_rng)
        noise = settings.sonar.noise_std * self._noise_rng.standard_normal(len(xy))
        ranges = simulation.sonar_z - self.terrain.elevation_at(xy) + noise
        for (x, y), measured in zip(xy.tolist(), ranges.tolist(), strict=True):
            self._keep(x, y, measured)

    def _keep(self, x: float, y: float, measured: float) -> None:
        """Keep a range measured at x, y for the next batch, if it is valid."""
        simulation = self.simulation
        # A positive test: NaN fails it (REP-117).
        if simulation.settings.min_range <= measured <= simulation.max_range:
            self._xy.append((x, y))
            self._z.append(simulation.sonar_z - measured)

    @property
    def _position(self) -> np.ndarray:
        pose = self.simulation.pose
        return np.array([pose.x, pose.y])

    def _drive(self, waypoint: np.ndarray) -> None:
        """Go to the waypoint and keep what the sonar returns on the way, within the budget."""
        simulation = self.simulation
        simulation.set_goal(waypoint)
        watch = GoalWatch(waypoint)
        budget = self.settings.max_samples - self.mapper.samples
        while len(self._z) < budget:
            step = simulation.step()
            for ping in step.pings:
                if len(self._z) < budget:
                    self._keep(ping.x, ping.y, ping.range)
            position = np.array([step.pose.x, step.pose.y])
            if watch.update(position, step.time_ns * 1e-9):
                return

    def _learn(self) -> EpochRecord:
        report = self.mapper.update(np.array(self._xy), np.array(self._z))
        self._xy.clear()
        self._z.clear()
        start = perf_counter()
        prediction = self.mapper.predict(self._evaluation.points)
        predict_s = perf_counter() - start
        targets = self.mapper.z
        metrics = evaluate(
            prediction.mean, prediction.variance, self._truth, targets.mean(), targets.var()
        )
        time_s = self.simulation.time_ns * 1e-9
        return EpochRecord(report.samples, time_s, metrics, report.update_s, predict_s)


def run_mission(
    terrain: Terrain,
    settings: MissionSettings,
    folder: Path,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> list[EpochRecord]:
    """Run a mission and write its folder: config.yaml, truth.npz, epochs.csv (kept up to date),
    and at the end samples.csv and map.npz.

    Raises:
        InputError: if a setting is wrong or the folder cannot be written.
        CholeskyError: if the model is beyond repair; what was measured so far is in the folder.
    """
    make_folder(folder)
    mission = Mission(terrain, settings)
    write_config(folder / "config.yaml", describe(mission))
    write_truth(folder / "truth.npz", terrain.elevation, terrain.extent)
    records: list[EpochRecord] = []
    try:
        for record in mission.epochs():
            records.append(record)
            rows = [r.row() for r in records]
            write_table(folder / "epochs.csv", EPOCH_COLUMNS, rows)
            on_epoch(record)
    finally:
        # Also after Ctrl-C or a failure: what was measured is never lost.
        write_samples(folder / "samples.csv", mission.mapper.xy, mission.mapper.z)
    grid = map_grid(settings.workspace, settings.resolution)
    write_map(folder / "map.npz", mission.mapper.map(grid))
    return records


def describe(mission: Mission) -> dict[str, Any]:
    """Everything resolved, as plain values for config.yaml."""
    terrain, settings = mission.terrain, mission.settings
    return {
        "version": __version__,
        "terrain": {
            "name": terrain.name,
            "source": terrain.source,
            "environment": list(terrain.extent.bounds),
            "elevation": [terrain.lowest, terrain.highest],
        },
        **{f.name: getattr(settings, f.name) for f in fields(settings)},
        "model": settings.model.flat,
        "workspace": list(settings.workspace.bounds),
        "sonar": asdict(mission.simulation.settings),
    }
