"""A mission in lock-step: vehicle, session, mission and planner wait for each other; no ROS.

By the policy ``paper`` this is Algorithm 1: the model learns what was measured on the way to a
waypoint, and the planner then asks the model itself. By ``deployed`` it is what a vehicle's nodes
do: batches close by number and time, and the planner has the latest map and its own newer track.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, PoamError
from ..core.geometry import Grid, map_grid
from ..core.maps import ElevationMap
from ..frontend.batching import WaypointBatches
from ..frontend.events import (
    DONE,
    EXPLORING,
    PILOT,
    BatchLearned,
    Event,
    LoopEvent,
    MapDrawn,
    MissionStateChanged,
    Problem,
    Tick,
    WaypointReached,
)
from ..frontend.front_end import GateSettings, RawPing
from ..frontend.odometry import VehicleState
from ..learning.session import SurveySession
from ..mission.chooser import WaypointChooser
from ..mission.mission import Mission
from ..mission.target import MapTarget
from ..models.mapper import BathymetricMapper
from ..outputs.folder import EpochRecord
from ..outputs.metrics import evaluate
from ..outputs.scoring import POINTS
from ..planning.pilots import PILOTS, bezier_pilot, path_length, start_pose
from ..planning.situation import MapView, ModelView
from .settings import RANDOM_SAMPLES, MissionSettings
from .world.simulator import SimulatedPing, Simulation
from .world.terrain import Terrain
from .world.vehicle import Pose

log = logging.getLogger(__name__)

#: m/s, of the vehicle.
MAX_SPEED = 1.0
#: m, of the maps that a vehicle's planner gets: the mapper's default.
MAP_RESOLUTION = 1.0
#: s of mission time that a vehicle holds station for its first map.
PATIENCE_S = 300.0


class LockstepMission:
    """The whole ring in one loop, reproducible by seed.

    Sonar, planner, pilot and model draw from generators of their own, spawned from one seed; so
    does the noise of random initial samples.
    """

    def __init__(self, terrain: Terrain, settings: MissionSettings) -> None:
        self.terrain, self.settings = terrain, settings
        seeds = np.random.SeedSequence(settings.seed).spawn(5)
        sonar_seed, model_seed = (int(s.generate_state(1)[0]) for s in seeds[:2])
        self._planner_rng, self._pilot_rng, self._noise_rng = map(np.random.default_rng, seeds[2:])
        workspace = settings.workspace
        self.mapper = BathymetricMapper(workspace, settings.model, seed=model_seed)
        start = Pose(*self._start())
        self.simulation = Simulation(
            terrain, start=start, sonar=settings.sonar, max_speed=MAX_SPEED, seed=sonar_seed
        )
        as_in_the_paper = settings.policy == "paper"
        self.session = SurveySession(
            self.mapper,
            GateSettings(
                workspace=workspace,
                range_time_offset=-settings.sonar.latency,
                max_jump=0.0,  # random initial samples are of places far apart
            ),
            WaypointBatches() if as_in_the_paper else settings.batches,
            grid=None if as_in_the_paper else map_grid(workspace, MAP_RESOLUTION),
            screening=settings.screening,
        )
        self._choose = self._learn_and_choose if as_in_the_paper else self._choose_on_the_map
        self._goal: np.ndarray | None = None
        self._hold_until_s: float | None = None  # the first map is waited for so long
        self._points = Grid.nodes(workspace, POINTS, POINTS).points  # that the model is scored at
        self._truth = terrain.elevation_at(self._points)
        self._records: list[EpochRecord] = []  # that were not handed out yet
        self.target = MapTarget(settings.target)
        self._trained_s = 0.0  # until when the model has used the time between batches

    def epochs(self) -> Iterator[EpochRecord]:
        """Run the mission; one record per batch that the model learned, the pilot survey's first.

        Raises:
            InputError: the pilot survey, or all of the mission, makes no map.
            PoamError: it makes none because the model fails.
        """
        settings, pilot = self.settings, np.empty((0, 2))
        if settings.pilot != RANDOM_SAMPLES:
            pilot = PILOTS[settings.pilot](settings.workspace, self._pilot_rng)
        self.mission = Mission(pilot, settings.workspace, max_samples=settings.max_samples)
        draws = self._planner_rng
        self._chooser = WaypointChooser(self.mission, self.target, settings.planner, draws)
        self._announce()
        if settings.pilot == RANDOM_SAMPLES:
            self._sample_at_random()
        self.mission.set_planner(self._choose)
        self._locate()
        yield from self._take_records()
        while self.mission.state != DONE:
            self._step()
            yield from self._take_records()
        if not self.mapper.initialised:
            raise self._no_map()
        if (drawn := self._drawn()) is not None:  # with the last batch
            self.target.assess(self.mission, drawn, self._now.steady_s)

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
        noise = simulation.settings.noise_std * self._noise_rng.standard_normal(len(xy))
        ranges = simulation.sonar_z - self.terrain.elevation_at(xy) + noise
        late_ns = round(settings.sonar.latency * SECOND)
        for i, ((x, y), measured) in enumerate(zip(xy.tolist(), ranges.tolist(), strict=True)):
            stamp_ns = i - len(xy)
            self._handle(VehicleState(stamp_ns, (x, y, simulation.sonar_z)))
            self._ping(SimulatedPing(stamp_ns + late_ns, stamp_ns, x, y, measured))

    def _step(self) -> None:
        """One control period: drive, measure, learn what is due, and choose where to go next."""
        step = self.simulation.step()
        for ping in () if self.settings.sonar.latency > 0 else step.pings:
            if ping.stamp_ns < step.time_ns:  # where the vehicle truly was, between two odometries
                place = (ping.x, ping.y, self.simulation.sonar_z)
                self._handle(VehicleState(ping.stamp_ns, place))
        self._handle(self._odometry)
        for ping in step.pings:
            self._ping(ping)
        self._locate()

    def _ping(self, ping: SimulatedPing) -> None:
        limits = self.simulation.settings.min_range, self.simulation.max_range
        self._handle(RawPing(ping.stamp_ns, ping.range, *limits))
        self._handle(Tick())
        self.mission.count_samples(self.session.samples)
        self._announce()

    def _locate(self) -> None:
        """Tell the mission where the vehicle is, and the vehicle where to go."""
        pose, mission = self.simulation.pose, self.mission
        self.target.tick(mission, self._now.steady_s)
        mission.update_position(np.array([pose.x, pose.y]), self._now.steady_s)
        self._announce()
        if mission.goal is not self._goal:
            self._goal = mission.goal
            self.simulation.set_goal(mission.goal)
            if mission.state == EXPLORING:  # at a point of a way of many, too
                self._handle(WaypointReached())

    def _announce(self) -> None:
        before, state = self.session.mission_state, self.mission.state
        if state == before:
            return
        self._handle(MissionStateChanged(state))
        if before == PILOT and state == DONE:
            log.warning(
                "max_samples = %d ends the mission inside its pilot survey: nothing is explored",
                self.settings.max_samples,
            )

    def _learn_and_choose(self, position: np.ndarray) -> np.ndarray | None:
        """The paper's: what was measured on the way is in the model that the planner asks."""
        self._announce()
        self._handle(WaypointReached())
        if not self.mapper.initialised:
            raise self._no_map()
        return self._path(self._drawn(), ModelView(self.mapper, self.settings.planner_noise))

    def _choose_on_the_map(self, position: np.ndarray) -> np.ndarray | None:
        """A vehicle's: the latest map, and where the vehicle has been since; None without one."""
        latest = self.session.map
        if latest is None:
            now_s = self._now.steady_s
            self._hold_until_s = self._hold_until_s or now_s + PATIENCE_S
            if now_s > self._hold_until_s:
                raise self._no_map()
            return None
        return self._path(latest)

    def _path(self, drawn: ElevationMap | None, view: MapView | None = None) -> np.ndarray:
        now_s, yaw = self._now.steady_s, self.simulation.pose.yaw
        if drawn is not None:
            self.target.assess(self.mission, drawn, now_s)
        options = self.settings.planner_options
        return self._chooser.path(drawn, now_s, yaw, MAX_SPEED, options, view)

    def _drawn(self) -> ElevationMap | None:
        """The model's map now, with the cells of a vehicle's; None where no target asks for it."""
        if not self.target.settings.on:
            return None
        grid = map_grid(self.settings.workspace, MAP_RESOLUTION)
        return self.mapper.map(grid, self._now.ros_ns).with_pings(self.mapper.xy)

    def _handle(self, event: Event) -> None:
        """Hand the session what happened, and wait until the model has learned what is due."""
        self.session.handle(event, self._now)
        while self.session.due(self._now):
            for outcome in (*self._train_on(), *self.session.work(self._now)):
                if isinstance(outcome, BatchLearned):
                    self._score(outcome)
                elif isinstance(outcome, MapDrawn):
                    self.target.assess(self.mission, outcome.map, self._now.steady_s)
                elif isinstance(outcome, Problem):
                    log.warning("%s", outcome.message.text)

    def _score(self, learned: BatchLearned) -> None:
        """Score the model that has learned a batch."""
        start = perf_counter()
        found = self.mapper.predict(self._points)
        predict_s, report = perf_counter() - start, learned.report
        metrics = evaluate(found.mean, found.variance, self._truth, *learned.targets)
        times = self._now.steady_s, metrics, report.update_s, predict_s
        self._records.append(EpochRecord(report.samples, *times))

    def _take_records(self) -> list[EpochRecord]:
        records, self._records = self._records, []
        return records

    def _train_on(self) -> Iterator[LoopEvent]:
        """The training that there was time for since the batch before."""
        since_s, self._trained_s = self._trained_s, self._now.steady_s
        steps = int((self._trained_s - since_s) * self.settings.training_rate)
        if steps and self.mapper.initialised:
            yield self.session.idle_training.train(steps)

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
            f"sonar: expected pings of a ground that a map can be made of, got {ledger.accepted} "
            f"accepted in {self._now.steady_s:.0f} s ({refused or 'none'} refused)"
        )
