"""A mission in lock-step: vehicle, session, mission and planner wait for each other; no ROS.

With the policy ``paper`` this is Algorithm 1: the model is updated with the samples on the leg to a
waypoint, then the planner queries the model itself. With ``deployed`` it does what the nodes on a
vehicle do: batches close by size and time, and the planner has the latest map and the track since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import __version__
from ..core.clock import SECOND, Moment
from ..core.errors import InputError, PoamError
from ..core.geometry import map_grid, path_length
from ..core.maps import ElevationMap
from ..core.samples import WaypointBatches
from ..core.settings import nested, values_of
from ..frontend.events import DONE, EXPLORING, PILOT, BatchLearned, MapDrawn, Problem
from ..frontend.front_end import FrontEndSettings, RawPing
from ..frontend.odometry import VehicleState
from ..learning.session import SurveySession
from ..mission.mission import Mission
from ..mission.target import MapTarget
from ..models.mapper import BathymetricMapper
from ..models.prior import FILE as PRIOR
from ..models.prior import read_prior
from ..outputs.folder import (
    EPOCH_COLUMNS,
    EpochRecord,
    make_folder,
    write_config,
    write_map,
    write_samples,
    write_table,
    write_truth,
)
from ..outputs.recorder import GridScorer
from ..outputs.run import write_refused
from ..planning.pilots import PILOTS, bezier_pilot, start_pose
from ..planning.planners import PLANNERS, MapView, ModelView
from .settings import RANDOM_SAMPLES, MissionSettings
from .simulator import SimulatedPing, Simulation
from .terrain import Terrain
from .vehicle import Pose

log = logging.getLogger(__name__)

#: Maximum speed of the vehicle, in m/s.
MAX_SPEED = 1.0
#: Cell size of the planner's maps, in m: the mapper's default.
MAP_RESOLUTION = 1.0
#: Maximum mission time that a vehicle holds station for its first map, in s.
MAP_TIMEOUT_S = 300.0


class LockstepMission:
    """Vehicle, mapper and planner in one loop, reproducible by seed.

    Sonar, planner, pilot survey, model and the noise of random initial samples have separate
    generators, spawned from one seed.
    """

    def __init__(self, terrain: Terrain, settings: MissionSettings) -> None:
        self.terrain, self.settings = terrain, settings
        seeds = np.random.SeedSequence(settings.seed).spawn(5)
        sonar_seed, model_seed = (int(s.generate_state(1)[0]) for s in seeds[:2])
        self._planner_rng, self._pilot_rng, self._noise_rng = map(np.random.default_rng, seeds[2:])
        workspace = settings.workspace
        prior = read_prior(settings.model.prior, workspace, None)
        self.mapper = BathymetricMapper(workspace, settings.model, model_seed, prior=prior)
        start = Pose(*self._start())
        self.simulation = Simulation(
            terrain, start=start, sonar=settings.sonar, max_speed=MAX_SPEED,
            current=settings.current, seed=sonar_seed,
        )  # fmt: skip
        front_end = FrontEndSettings(
            workspace=workspace, range_time_offset=-settings.sonar.latency,
            max_jump=0.0,  # random initial samples are far apart
        )  # fmt: skip
        deployed = settings.policy == "deployed"
        self.session = SurveySession(
            self.mapper, front_end, settings.batches if deployed else WaypointBatches(),
            map_grid(workspace, MAP_RESOLUTION) if deployed else None,
            screening=settings.screening,
        )  # fmt: skip
        self._choose = self._plan_deployed if deployed else self._plan_paper
        self._goal: np.ndarray | None = None
        self._hold_until_s: float | None = None  # deadline of the first map
        self._scorer = GridScorer(workspace, terrain.elevation_at)
        self._records: list[EpochRecord] = []  # not yielded yet

    def epochs(self) -> Iterator[EpochRecord]:
        """Run the mission; one record per batch that the model learned, the pilot survey's first.

        Raises:
            InputError: the pilot survey, or the whole mission, gives no map.
            PoamError: the model fails and there is no map.
        """
        settings, pilot = self.settings, np.empty((0, 2))
        if settings.pilot != RANDOM_SAMPLES:
            pilot = PILOTS[settings.pilot](settings.workspace, self._pilot_rng)
        self.mission = Mission(
            pilot, settings.workspace, clearance=settings.clearance,
            max_samples=settings.max_samples,
        )  # fmt: skip
        self.target = MapTarget(settings.target, self.mission)
        self._announce()
        if settings.pilot == RANDOM_SAMPLES:
            self._sample_at_random()
        self._locate()
        yield from self._take_records()
        while self.mission.state != DONE:
            self._step()
            yield from self._take_records()
        if not self.mapper.initialised:
            raise self._no_map()
        if (drawn := self._drawn()) is not None:  # with the last batch
            self.target.learn(drawn, self._now.steady_s)

    def _start(self) -> tuple[float, float, float]:
        """The vehicle's start pose (x, y, yaw)."""
        workspace = self.settings.workspace
        if self.settings.pilot != RANDOM_SAMPLES:
            return start_pose(workspace)
        x, y = workspace.sample(1, self._pilot_rng)[0]
        return float(x), float(y), float(self._pilot_rng.uniform(-np.pi, np.pi))

    def _sample_at_random(self) -> None:
        """Take uniform initial samples with the sonar's noise, before mission time starts.

        Their number is that of pings along the length of the Bezier pilot, within the budget.
        """
        settings, simulation = self.settings, self.simulation
        length = path_length(bezier_pilot(settings.workspace, self._pilot_rng))
        wanted = max(1, round(length / MAX_SPEED * settings.sonar.rate))
        xy = settings.workspace.sample(min(wanted, settings.max_samples), self._pilot_rng)
        noise = simulation.settings.noise_std * self._noise_rng.standard_normal(len(xy))
        ranges = simulation.sonar_z - self.terrain.elevation_at(xy) + noise
        late_ns = round(settings.sonar.latency * SECOND)
        for i, ((x, y), measured) in enumerate(zip(xy.tolist(), ranges.tolist(), strict=True)):
            stamp_ns = i - len(xy)
            self.session.odometry(VehicleState(stamp_ns, (x, y, simulation.sonar_z)), self._now)
            self._ping(SimulatedPing(stamp_ns + late_ns, x, y, measured))

    def _step(self) -> None:
        """One control period: drive, measure, update the model if due, choose the next waypoint."""
        step = self.simulation.step()
        for ping in () if self.settings.sonar.latency > 0 else step.pings:
            if ping.stamp_ns < step.time_ns:  # the true place, between two odometry messages
                place = (ping.x, ping.y, self.simulation.sonar_z)
                self.session.odometry(VehicleState(ping.stamp_ns, place), self._now)
        self.session.odometry(self._odometry, self._now)
        self._work()
        for ping in step.pings:
            self._ping(ping)
        self._locate()

    def _ping(self, ping: SimulatedPing) -> None:
        limits = self.simulation.settings.min_range, self.simulation.settings.max_range
        raw = RawPing(ping.stamp_ns, ping.range, *limits)
        self.mission.sounded(raw)
        self.session.ping(raw, self._now)
        self.session.tick(self._now)
        self._work()
        self.mission.count_samples(self.session.samples)
        self._announce()

    def _locate(self) -> None:
        """Update the mission's position and the vehicle's goal."""
        pose, mission = self.simulation.pose, self.mission
        self.target.follow(self._now.steady_s)
        mission.update_position(np.array([pose.x, pose.y]), self._now.steady_s)
        if mission.needs_goal and (path := self._choose()) is not None:
            mission.drive(*path)
        self._announce()
        if mission.goal is not self._goal:
            self._goal = mission.goal
            self.simulation.set_goal(mission.goal)
            if mission.state == EXPLORING:  # also at the inner points of a path
                self.session.waypoint_reached()
                self._work()

    def _announce(self) -> None:
        before, state = self.session.pilot.state, self.mission.state
        if state == before:
            return
        self.session.mission(state, self._now)
        self._work()
        if before == PILOT and state == DONE:
            log.warning(
                "max_samples = %d ends the mission during its pilot survey: no exploration",
                self.settings.max_samples,
            )

    def _plan_paper(self) -> tuple[np.ndarray, str] | None:
        """The paper's policy: the planner queries a model that has all samples."""
        self._announce()
        self.session.waypoint_reached()
        self._work()
        if not self.mapper.initialised:
            raise self._no_map()
        return self._path(self._drawn(), ModelView(self.mapper, self.settings.planner_noise))

    def _plan_deployed(self) -> tuple[np.ndarray, str] | None:
        """The deployed policy: the latest map and the track since; None without a map."""
        latest = self.session.map
        if latest is None:
            now_s = self._now.steady_s
            self._hold_until_s = self._hold_until_s or now_s + MAP_TIMEOUT_S
            if now_s > self._hold_until_s:
                raise self._no_map()
            return None
        return self._path(latest)

    def _path(
        self, drawn: ElevationMap | None, view: MapView | None = None
    ) -> tuple[np.ndarray, str]:
        now_s, yaw = self._now.steady_s, self.simulation.pose.yaw
        if drawn is not None:
            self.target.learn(drawn, now_s)
        planner = PLANNERS[self.settings.planner], self.settings.planner_options
        return self.target.next_path(
            drawn, now_s, yaw, MAX_SPEED, *planner, self._planner_rng, view
        )

    def _drawn(self) -> ElevationMap | None:
        """The model's present map in the planner's cells; None if neither target nor clearance
        needs it."""
        if not self.settings.target.on and self.mission.deep is None:
            return None
        grid = map_grid(self.settings.workspace, MAP_RESOLUTION)
        return self.mapper.map(grid, self._now.ros_ns).with_pings(self.mapper.xy)

    def _work(self) -> None:
        """Do all model work that is due."""
        while self.session.due(self._now):
            for outcome in self.session.work(self._now):
                if isinstance(outcome, BatchLearned):
                    self._score(outcome)
                elif isinstance(outcome, MapDrawn):
                    self.target.learn(outcome.map, self._now.steady_s)
                elif isinstance(outcome, Problem):
                    log.warning("%s", outcome.text)

    def _score(self, learned: BatchLearned) -> None:
        """Score the model after a batch."""
        start = perf_counter()
        predicted = self.mapper.predict(self._scorer.points)
        predict_s, report = perf_counter() - start, learned.report
        metrics = self._scorer.score(predicted.mean, predicted.variance, *learned.targets)
        record = EpochRecord(
            samples=report.samples, time_s=self._now.steady_s, update_s=report.update_s,
            predict_s=predict_s, **metrics,
        )  # fmt: skip
        self._records.append(record)

    def _take_records(self) -> list[EpochRecord]:
        records, self._records = self._records, []
        return records

    @property
    def _now(self) -> Moment:
        time_ns = self.simulation.time_ns
        return Moment(time_ns, time_ns / SECOND)

    @property
    def _odometry(self) -> VehicleState:
        pose = self.simulation.pose
        quaternion = (0.0, 0.0, np.sin(pose.yaw / 2), np.cos(pose.yaw / 2))
        place = (pose.x, pose.y, self.simulation.sonar_z)
        return VehicleState(self.simulation.time_ns, place, quaternion, MAX_SPEED)

    def _no_map(self) -> PoamError:
        if failing := self.session.status.failing:
            return PoamError(f"no map: {failing}")
        ledger = self.session.ledger
        refused = ", ".join(f"{n} {reason}" for reason, n in sorted(ledger.rejected.items()))
        return InputError(
            f"sonar: expected pings of the bottom to make a map, got {ledger.accepted} "
            f"accepted in {self._now.steady_s:.0f} s ({refused or 'none'} refused)"
        )


def run_mission(
    terrain: Terrain,
    settings: MissionSettings,
    folder: Path,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_end: Callable[[str], None] = lambda reason: None,
) -> list[EpochRecord]:
    """Run a mission and write its folder: config.yaml, truth.npz, epochs.csv (updated
    after each epoch), and finally samples.csv, refused.csv and map.npz. ``on_end`` gets the reason.

    Raises:
        InputError: if a setting is wrong or the folder cannot be written.
        CholeskyError: if the model fails for good; the samples so far are in the folder.
    """
    make_folder(folder)
    mission = LockstepMission(terrain, settings)
    write_config(folder / "config.yaml", describe(mission))
    (folder / PRIOR).unlink(missing_ok=True)
    if mission.mapper.prior is not None:
        mission.mapper.prior.write(folder)
    write_truth(folder / "truth.npz", terrain.elevation, terrain.extent)
    records: list[EpochRecord] = []
    try:
        for record in mission.epochs():
            records.append(record)
            write_table(folder / "epochs.csv", EPOCH_COLUMNS, records)
            on_epoch(record)
    finally:
        # Also after Ctrl-C or a failure, so that no sample is lost.
        samples = mission.session.all_samples()
        write_refused(folder, mission.session.refused_and_withdrawn)
        write_samples(folder / "samples.csv", samples.xy, samples.z)
    grid = map_grid(settings.workspace, settings.resolution)
    write_map(folder / "map.npz", mission.mapper.map(grid))
    on_end(mission.mission.reason)
    return records


def describe(mission: LockstepMission) -> dict[str, Any]:
    """The resolved configuration, as plain values for config.yaml."""
    terrain, settings = mission.terrain, mission.settings
    values = values_of(
        settings, settings.model, settings.model.options, settings.planner_options,
        mission.simulation.settings, settings.batches, settings.screening, settings.target,
        settings.clearance,
    )  # fmt: skip
    return {
        "version": __version__,
        "simulated": True,
        "terrain": {
            "name": terrain.name,
            "source": terrain.source,
            "environment": list(terrain.extent.bounds),
            "elevation": [terrain.lowest, terrain.highest],
        },
        "workspace": list(settings.workspace.bounds),
        **nested(values),
    }
