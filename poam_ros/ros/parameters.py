"""The parameters of every node, one table each. See ``declaring.py`` for what a row does."""

from __future__ import annotations

from ..errors import InputError
from ..geometry import Extent
from .declaring import Parameter, declare, render_markdown, render_yaml

__all__ = [
    "MAPPER",
    "MONITOR",
    "NODES",
    "PLANNER",
    "SIMULATOR",
    "Parameter",
    "declare",
    "generated_files",
    "render_markdown",
]

MAX_SEED = 2**31 - 1


def _frame_name(name: str) -> None:
    if not name or name.startswith("/"):
        raise InputError(f"a frame's name without a leading slash, got {name!r}")


SEED = Parameter("seed", 0, "Seed of every random draw of the node", minimum=0, maximum=MAX_SEED)
FRAME = Parameter("frame_id", "map", "Frame of the map, without a leading slash", check=_frame_name)
WORKSPACE = Parameter(
    "workspace",
    (-30.0, 30.0, -30.0, 30.0),
    "Rectangle to be mapped: xmin, xmax, ymin, ymax",
    "m",
    check=Extent.of,
)
OUTPUT = Parameter("output", "", "Folder for the results when the mission is done; empty: none")


def _fraction(name: str, description: str) -> Parameter:
    return Parameter(name, 0.0, description, minimum=0.0, maximum=1.0)


MAPPER: tuple[Parameter, ...] = (
    Parameter("method", "poam", "Row of the METHODS table: how the model learns online"),
    Parameter("kernel", "attentive", "Covariance function: attentive, rbf, gibbs, deep"),
    SEED,
    WORKSPACE,
    FRAME,
    OUTPUT,
    Parameter(
        "resolution", 1.0, "Cell size of the published maps", "m", minimum=0.01, maximum=1000.0
    ),
    Parameter(
        "margin",
        5.0,
        "Pings taken farther than this outside the workspace are not used",
        "m",
        minimum=0.0,
        maximum=1e6,
    ),
    Parameter(
        "batch_size",
        20,
        "Waiting pings that close a batch",
        minimum=1,
        maximum=100_000,
        mutable=True,
    ),
    Parameter(
        "batch_period",
        10.0,
        "Age of the oldest waiting ping that closes a batch, in ROS time",
        "s",
        minimum=0.1,
        maximum=3600.0,
        mutable=True,
    ),
    Parameter(
        "pilot_samples",
        500,
        "Accepted pings that start the model where nobody publishes mission/state",
        minimum=5,
        maximum=1_000_000,
        mutable=True,
    ),
    Parameter(
        "range_time_offset",
        0.0,
        "Time of measurement = stamp of the ping + this; -0.5 for a sonar that stamps 0.5 s late",
        "s",
        minimum=-60.0,
        maximum=60.0,
        mutable=True,
    ),
    Parameter(
        "odometry_timeout",
        1.0,
        "Longest gap between two odometry messages that positions are interpolated across",
        "s",
        minimum=0.01,
        maximum=60.0,
        mutable=True,
    ),
    Parameter(
        "odometry_wait",
        5.0,
        "Longest wait of a ping for its odometry, in wall time",
        "s",
        minimum=0.1,
        maximum=600.0,
        mutable=True,
    ),
    Parameter(
        "sonar_offset",
        (0.0, 0.0, 0.0),
        "Place of the sonar in the vehicle's frame (x forward, y left, z up); its beam points down",
        "m",
        minimum=-100.0,
        maximum=100.0,
    ),
    Parameter("num_inducing", 500, "Largest number of inducing points", minimum=2, maximum=10_000),
    Parameter("minibatch", 256, "Samples in one training step", minimum=1, maximum=100_000),
    Parameter("steps", 10, "Training steps per update", minimum=0, maximum=10_000),
    Parameter("num_lengthscales", 10, "Number of base kernels", minimum=1, maximum=100),
    Parameter(
        "min_lengthscale",
        0.05,
        "Shortest base lengthscale, half the workspace's longer side being 1",
        minimum=1e-4,
        maximum=100.0,
    ),
    Parameter(
        "max_lengthscale",
        0.5,
        "Longest base lengthscale, half the workspace's longer side being 1",
        minimum=1e-4,
        maximum=100.0,
    ),
    Parameter(
        "noise_variance",
        1.0,
        "Initial noise variance, the pilot's variance being 1",
        minimum=1e-6,
        maximum=1e3,
    ),
    Parameter(
        "jitter", 1e-6, "Jitter on the inducing points' covariance", minimum=0.0, maximum=1e-2
    ),
    Parameter(
        "tolerance",
        1e-5,
        "Inducing points are added while one explains more than this part of the prior variance",
        minimum=1e-12,
        maximum=1.0,
    ),
    Parameter(
        "learning_rate",
        1e-2,
        "Learning rate of noise and amplitude",
        minimum=1e-9,
        maximum=1.0,
    ),
    Parameter(
        "network_learning_rate",
        1e-3,
        "Learning rate of the kernel's network",
        minimum=1e-9,
        maximum=1.0,
    ),
    Parameter("threads", 1, "Threads of the linear algebra", minimum=1, maximum=256),
    Parameter("device", "cpu", "Torch device of the model: cpu, cuda, cuda:1"),
)

PLANNER: tuple[Parameter, ...] = (
    Parameter(
        "planner",
        "max-entropy",
        "How waypoints are chosen after the pilot",
        choices=("max-entropy", "random"),
    ),
    Parameter("pilot", "bezier", "Pilot survey", choices=("bezier", "lawnmower", "random")),
    SEED,
    WORKSPACE,
    FRAME,
    Parameter(
        "max_samples",
        5000,
        "The mission is done at this many accepted pings; 0: no such end",
        minimum=0,
        maximum=10_000_000,
        mutable=True,
    ),
    Parameter(
        "max_duration",
        0.0,
        "The mission is done after this long, in ROS time; 0: no such end",
        "s",
        minimum=0.0,
        maximum=1e7,
        mutable=True,
    ),
    Parameter(
        "goal_radius",
        0.1,
        "A goal this near is reached",
        "m",
        minimum=1e-3,
        maximum=1e3,
        mutable=True,
    ),
    Parameter(
        "capture_radius",
        1.34,
        "A goal passed this near counts as reached: about the vehicle's turning diameter",
        "m",
        minimum=1e-3,
        maximum=1e4,
        mutable=True,
    ),
    Parameter(
        "max_speed",
        1.0,
        "Speed of the vehicle, by which a goal's time limit is set",
        "m/s",
        minimum=1e-3,
        maximum=100.0,
        mutable=True,
    ),
    Parameter(
        "candidates",
        2000,
        "Random candidates a waypoint is chosen from",
        minimum=1,
        maximum=1_000_000,
        mutable=True,
    ),
    Parameter(
        "distance_weight",
        0.5,
        "Weight of the normalised distance against the normalised entropy",
        minimum=0.0,
        maximum=100.0,
        mutable=True,
    ),
)

SIMULATOR: tuple[Parameter, ...] = (
    Parameter(
        "terrain",
        "jacksboro",
        "Built-in terrain (jacksboro, seamounts), SRTM tile (N17E073), or a file",
    ),
    Parameter(
        "elevation_range",
        (0.0, 0.0),
        "Lowest and highest elevation the terrain is scaled to; two equal numbers: as it is",
        "m",
        minimum=-1e5,
        maximum=1e5,
    ),
    Parameter(
        "environment",
        (-31.0, 31.0, -31.0, 31.0),
        "Rectangle of the terrain, which the vehicle never leaves: xmin, xmax, ymin, ymax",
        "m",
        check=Extent.of,
    ),
    WORKSPACE,
    SEED,
    FRAME,
    Parameter(
        "speed",
        1.0,
        "Simulated seconds per second of wall time",
        minimum=0.01,
        maximum=1000.0,
        mutable=True,
    ),
    Parameter(
        "control_rate", 10.0, "Rate of control and odometry", "Hz", minimum=0.1, maximum=1000.0
    ),
    Parameter("max_speed", 1.0, "Speed of the vehicle", "m/s", minimum=1e-3, maximum=100.0),
    Parameter(
        "max_turn_rate", 1.5, "Turn rate of the vehicle", "rad/s", minimum=1e-3, maximum=100.0
    ),
    Parameter(
        "goal_timeout",
        3.0,
        "The vehicle stops when its goal was not repeated for this long, in ROS time",
        "s",
        minimum=0.1,
        maximum=3600.0,
        mutable=True,
    ),
    Parameter("sonar_rate", 3.0, "Rate of the sonar", "Hz", minimum=0.01, maximum=1000.0),
    Parameter("noise_std", 1.0, "Standard deviation of a range", "m", minimum=0.0, maximum=1e3),
    Parameter(
        "clearance",
        5.0,
        "Height of the sonar above the highest ground",
        "m",
        minimum=0.01,
        maximum=1e5,
    ),
    Parameter("min_range", 0.1, "Shortest valid range", "m", minimum=0.0, maximum=1e5),
    Parameter(
        "max_range",
        0.0,
        "Longest valid range; 0: enough for the deepest ground",
        "m",
        minimum=0.0,
        maximum=1e6,
    ),
    Parameter(
        "field_of_view", 0.05, "Width of the sonar's beam", "rad", minimum=0.0, maximum=3.1416
    ),
    Parameter(
        "latency", 0.0, "Pings are stamped and delivered this late", "s", minimum=0.0, maximum=60.0
    ),
    Parameter(
        "wait_for_mission",
        False,
        "Time begins when somebody hears the sonar and gives goals, or after 60 s of wall time",
    ),
    _fraction("dropout", "Part of the pings that is never delivered"),
    _fraction("outlier", "Part of the pings that lies beyond max_range"),
    _fraction("nan", "Part of the pings that is NaN (erroneous)"),
    _fraction("inf", "Part of the pings that is +Inf or -Inf (no return, too close)"),
)

MONITOR: tuple[Parameter, ...] = (
    WORKSPACE,
    OUTPUT,
    Parameter("keep", False, "Stay up when the mission is done"),
    Parameter(
        "linger",
        10.0,
        "Wall time between the mission's end and the monitor's own",
        "s",
        minimum=0.0,
        maximum=3600.0,
    ),
)

NODES: dict[str, tuple[Parameter, ...]] = {
    "mapper": MAPPER,
    "planner": PLANNER,
    "simulator": SIMULATOR,
    "monitor": MONITOR,
}


def generated_files() -> dict[str, str]:
    """The text of what is written from these tables, by path: config/*.yaml, docs/parameters.md."""
    return {
        "docs/parameters.md": "# Parameters\n"
        + "".join(f"\n## {node}\n\n{render_markdown(table)}" for node, table in NODES.items()),
        "config/sim.yaml": render_yaml(NODES, "Defaults of a simulated mission."),
        "config/robot.yaml": render_yaml(
            {"mapper": MAPPER, "planner": PLANNER},
            "Defaults of a mission on a vehicle; its workspace belongs in both nodes.",
        ),
    }
