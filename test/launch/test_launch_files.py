"""The launch files: what they declare, what they pass on, what they refuse."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from poam_ros.core.errors import InputError

ROOT = Path(__file__).parent.parent.parent
#: The arguments of each launch file that are promised, with their defaults.
PROMISED = {
    "sim": "max_samples=5000 terrain=jacksboro speed=1.0 method=poam planner=max-entropy "
    "keep=false pilot=bezier sonar_rate=3.0 seed=0 output= params_file= namespace= rviz=false",
    "robot": "range_topic=sonar/range odom_topic=odom goal_topic=goal_pose frame_id=map workspace= "
    "water_level_topic=water_level mission_dir= params_file= namespace= use_sim_time=false "
    "rviz=false",
    "view": "rviz=true output= odom_topic=odom namespace= use_sim_time=false simulated=false",
}


def load(name: str) -> Any:
    """The description of a launch file; skips where the launch tools are missing."""
    # Not `launch`: from the checkout, that name also finds the folder of the launch files.
    pytest.importorskip("launch_ros.actions", reason="the launch tools of ROS 2 are not installed")
    spec = importlib.util.spec_from_file_location(name, ROOT / "launch" / f"{name}.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate_launch_description()


def started(launch_file: str, **given: str) -> tuple[Any, list[Any]]:
    """What a launch file starts with some launch arguments given; the nodes come last."""
    description = load(launch_file)
    from launch import LaunchContext

    context = LaunchContext()
    context.launch_configurations.update(given)
    found = [each for entity in description.entities for each in entity.visit(context) or []]
    return context, sorted(found, key=lambda each: hasattr(each, "node_executable"))


def nodes(launch_file: str, **given: str) -> dict[str, list[str]]:
    """Command line of each node, by executable, with some launch arguments given."""
    context, entities = started(launch_file, **given)
    commands = {}
    for node in entities:
        if not hasattr(node, "node_executable"):
            continue
        node._perform_substitutions(context)
        commands[node.node_executable] = [
            "".join(part.perform(context) for part in word if hasattr(part, "text"))
            for word in node.cmd
        ]
    return commands


def parameters(command: list[str]) -> dict[str, Any]:
    """The parameters a node is started with, besides the file that all have first; in the order ROS
    applies its files."""
    merged: dict[str, Any] = {}
    files = [path for flag, path in pairwise(command) if flag == "--params-file"]
    for path in files[Path(files[0]).name in ("sim.yaml", "robot.yaml") :]:
        # launch_ros writes a list as a tuple with a tag, which ROS does not look at.
        text = Path(path).read_text(encoding="utf-8").replace("!!python/tuple", "")
        for body in yaml.safe_load(text).values():
            merged |= body["ros__parameters"]
    return merged


@pytest.mark.parametrize("name", PROMISED)
def test_declares_the_promised_arguments(name):
    from_file = {argument.name: argument for argument in load(name).get_launch_arguments()}
    for argument, _, default in (each.partition("=") for each in PROMISED[name].split()):
        words = "".join(part.text for part in from_file[argument].default_value)
        assert words == default
        assert len(from_file[argument].description) > 10


def test_simulation_runs_on_simulated_time_with_typed_values():
    commands = nodes("sim", speed="20", max_samples="300", output="2024", keep="True", seed="3")
    assert set(commands) == {"simulator", "mapper", "planner", "monitor"}
    for command in commands.values():
        assert command[command.index("--params-file") + 1].endswith("config/sim.yaml")
    simulator, mapper = parameters(commands["simulator"]), parameters(commands["mapper"])
    assert simulator == {"speed": 20.0, "seed": 3}
    assert mapper == {"output": "2024", "seed": 3}
    assert parameters(commands["planner"]) == {"max_samples": 300, "seed": 3}
    assert parameters(commands["monitor"]) == {"keep": True, "output": "2024"}


@pytest.mark.parametrize("name", ["target.tvu", "nngp.neighbours"])
def test_a_parameter_that_is_no_argument_belongs_in_the_file(name):
    with pytest.raises(
        InputError, match=f"argument {name}: expected this parameter in params_file"
    ):
        nodes("robot", workspace="0 12 -4 4.5", **{name: "1b"})


def test_an_argument_of_a_launch_file_around_ours_is_not_refused():
    """It may have one by the name of a parameter of ours."""
    assert "mapper" in nodes("robot", workspace="0 12 -4 4.5", method="theirs")


def test_later_files_override_earlier_ones(tmp_path):
    """The names of presets count as well."""
    own = tmp_path / "mine.yaml"
    own.write_text(
        "/**: {ros__parameters: {workspace: [0.0, 9.0, 0.0, 9.0]}}\n"
        "/**/mapper: {ros__parameters: {sonar.max_range: 30.0, method: poam}}\n"
    )
    commands = nodes("robot", params_file=f"ardupilot.yaml, ping2.yaml,{own}")
    found = parameters(commands["mapper"])
    assert (found["sonar.repeat_window"], found["sonar.max_range"]) == (0.4, 30.0)
    assert found["method"] == "poam"
    assert parameters(commands["planner"])["goal_radius"] == 2.0


def test_params_file_beats_defaults_and_arguments_beat_it(tmp_path):
    file = tmp_path / "mission.yaml"
    file.write_text(
        "/**/planner:\n  ros__parameters:\n    pilot: lawnmower\n    max_samples: 99\n",
        encoding="utf-8",
    )
    planner = nodes("sim", params_file=str(file), max_samples="7")["planner"]
    assert parameters(planner) == {"pilot": "lawnmower", "max_samples": 7}


def test_namespace_takes_clock_and_frames_along():
    command = " ".join(nodes("sim", namespace="/auv1/")["mapper"])
    for remapping in ("/clock:=clock", "/tf:=tf", "/tf_static:=tf_static"):
        assert f"-r {remapping}" in command
    assert "/clock:=" not in " ".join(nodes("sim")["mapper"])


def test_robot_topics_and_workspace():
    commands = nodes(
        "robot", range_topic="/auv/sonar", goal_topic="/auv/goal", workspace="0 12 -4 4.5",
        water_level_topic="/harbour/tide",
    )  # fmt: skip
    assert set(commands) == {"mapper", "planner"}
    assert "water_level:=/harbour/tide" in commands["mapper"]
    assert "sonar/range:=/auv/sonar" in commands["mapper"]
    assert "goal_pose:=/auv/goal" in commands["planner"]
    for command in commands.values():
        assert parameters(command) == {"workspace": [0.0, 12.0, -4.0, 4.5]}
        assert command[command.index("--params-file") + 1].endswith("config/robot.yaml")


def test_a_workspace_in_degrees(tmp_path):
    """Both nodes have the same frame; an argument in metres beats the file."""
    pytest.importorskip("pyproj")
    file = tmp_path / "robot.yaml"
    degrees = "workspace_degrees: [-17.5005, 179.9995, -17.4995, -179.9995]"
    file.write_text(f"/**:\n  ros__parameters: {{{degrees}}}\n")
    for command in nodes("robot", params_file=str(file)).values():
        found = parameters(command)
        assert found["origin"] == pytest.approx([-17.5, -180.0])
        x, _, y, _ = found["workspace"]
        assert (x, y) == pytest.approx((-53.1, -55.3), abs=0.2)
    file.write_text(f"/**:\n  ros__parameters: {{{degrees}, origin: [-17.4, 180.0]}}\n")
    moved = parameters(nodes("robot", params_file=str(file))["mapper"])
    assert moved["origin"] == pytest.approx([-17.4, 180.0]) and moved["workspace"][2] < -11_000
    given = nodes("robot", params_file=str(file), workspace="0 9 0 9")
    assert parameters(given["mapper"])["workspace"] == [0.0, 9.0, 0.0, 9.0]


def test_a_workspace_of_the_fence_of_a_ground_station(tmp_path):
    """Its middle is the map's (0, 0), unless another is given, or the workspace itself."""
    pytest.importorskip("pyproj")
    corners = [[-17.5005, 179.9995], [-17.4995, 179.9995], [-17.4995, -179.9995]]
    file = tmp_path / "lake.plan"
    polygons = [{"polygon": corners, "inclusion": True}]
    file.write_text(json.dumps({"geoFence": {"polygons": polygons}}))
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"/**:\n  ros__parameters: {{areas.file: {file}}}\n")
    for command in nodes("robot", params_file=str(mine)).values():
        found = parameters(command)
        assert found["areas.file"] == str(file) and found["origin"] == pytest.approx(
            [-17.5, -180.0]
        )
        assert found["workspace"] == pytest.approx([-53.1, 53.1, -55.3, 55.3], abs=0.2)
    given = nodes("robot", workspace="0 9 0 9", params_file=str(mine))
    assert parameters(given["mapper"])["workspace"] == [0.0, 9.0, 0.0, 9.0]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("sim", {"speed": "fast"}, "speed: expected a number"),
        ("sim", {"max_samples": "-1"}, "max_samples: expected an integer"),
        ("sim", {"pilot": "zigzag"}, "lawnmower"),
        ("sim", {"target.tvu": "1b"}, "target.tvu: expected this parameter in params_file"),
        ("sim", {"params_file": "no/such.yaml"}, "no such file: no/such.yaml"),
        ("robot", {}, "workspace: expected xmin xmax ymin ymax"),
        ("robot", {"workspace": " "}, "workspace: expected xmin xmax ymin ymax"),
        ("robot", {"workspace": "0 1 2"}, "workspace: expected 4 numbers"),
        ("robot", {"workspace": "1 0 0 1"}, "xmin < xmax"),
        ("robot", {"workspace": "0 1 0 1", "use_sim_time": "perhaps"}, "use_sim_time"),
    ],
)
def test_wrong_values_are_refused_with_a_reason(name, given, words):
    load(name)  # skip before the exception is expected
    with pytest.raises((RuntimeError, ValueError), match=words):
        nodes(name, **given)


VIEWER = "poam_ros.ros.rviz"


def viewer(launch_file: str, **given: str) -> list[str]:
    """The command line that opens RViz, from its module on."""
    (command,) = (c for c in nodes(launch_file, **given).values() if VIEWER in c)
    assert command[:2] == [sys.executable, "-m"]
    return command[2:]


def test_a_robots_view_is_of_its_topics(tmp_path):
    given = {"workspace": "0 12 -4 4.5", "odom_topic": "/auv/odometry", "namespace": "auv"}
    assert set(nodes("robot", **given)) == {"mapper", "planner"}
    assert len(nodes("robot", rviz="true", **given)) == 3
    command = viewer("robot", rviz="true", **given)
    assert "odom:=/auv/odometry" in command and "--folder" not in command
    assert parameters(command) == {"use_sim_time": False}
    command = viewer("robot", rviz="true", mission_dir=str(tmp_path), **given)
    assert command[1:3] == ["--folder", str(tmp_path)]


def test_a_simulations_view_has_its_clock_and_folder(tmp_path):
    command = viewer("sim", rviz="true", namespace="auv", output=str(tmp_path))
    assert command[1:3] == ["--folder", str(tmp_path)]
    assert parameters(command)["use_sim_time"] is True
    assert "/clock:=clock" in command


def test_a_view_alone_starts_nothing_of_the_vehicle():
    assert len(nodes("view")) == 1
    assert "sonar/range:=/auv/sonar" in viewer("view", range_topic="/auv/sonar")
    assert "--no-rviz" not in viewer("view")
    assert "--no-rviz" in viewer("view", rviz="false")
    simulated = viewer("view", simulated="true", namespace="auv")
    assert parameters(simulated)["use_sim_time"] is True and "/tf:=tf" in simulated
    assert "/tf:=tf" not in viewer("view", use_sim_time="true", namespace="auv")


def test_a_view_ends_when_rviz_is_closed():
    context, entities = started("view")
    from launch.actions import RegisterEventHandler, Shutdown
    from launch.events.process import ProcessExited

    *_, rviz = entities
    (handler,) = [e.event_handler for e in entities if isinstance(e, RegisterEventHandler)]
    told = {"name": "n", "cmd": [], "cwd": None, "env": None, "pid": 1, "returncode": 0}
    closed = ProcessExited(action=rviz, **told)
    assert handler.matches(closed)
    assert any(isinstance(action, Shutdown) for action in handler.handle(closed, context) or [])


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ({}, True),
        ({"mission_dir": "kept", "params_file": "robot.yaml"}, True),
        ({"params_file": "robot.yaml"}, False),  # it would set off by itself, once more
    ],
)
def test_a_vehicle_s_node_that_dies_is_started_again(given, again, tmp_path):
    if "params_file" in given:
        file = tmp_path / "robot.yaml"
        file.write_text("/**/planner:\n  ros__parameters:\n    autostart: true\n")
        given = given | {"params_file": str(file)}
    context, entities = started("robot", workspace="0 9 0 9", **given)
    from launch.events.process import ProcessExited

    assert len(entities) == 2
    for node in entities:
        died = ProcessExited(
            action=node, name="n", cmd=[], cwd=None, env=None, pid=1, returncode=-9
        )
        handler = node._ExecuteLocal__on_exit
        respawns = again or node.node_executable == "mapper"
        if respawns:
            assert handler(died, context) is None
        else:
            with pytest.raises(RuntimeError, match="exit status -9"):
                handler(died, context)
        assert node._ExecuteLocal__respawn is respawns
