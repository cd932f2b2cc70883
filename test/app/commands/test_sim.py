"""`poam sim`: the arguments of its nodes, as in the launch file, and its processes."""

import sys
from pathlib import Path

import pytest
import yaml

from poam_ros.app import graph
from poam_ros.app.command import Parser
from poam_ros.app.commands.sim import (
    ProcessGroup,
    add_arguments,
    resolve,
    ros_arguments,
    rviz_command,
)  # fmt: skip
from poam_ros.core.errors import InputError
from poam_ros.ros.parameters import NODES


@pytest.fixture
def options(tmp_path):
    """The resolved options of a command line, its folder in a temporary one."""

    def resolved(*words):
        parser = Parser()
        add_arguments(parser)
        given = ["--terrain", "seamounts", "--output", str(tmp_path / "run"), *words]
        return resolve(parser.parse_args(given))

    return resolved


def parameters(node, given):
    """The parameters that a node is given by the options."""
    *_, flag, path = ros_arguments(node, given)
    assert flag == "--params-file"
    ((_, content),) = yaml.safe_load(Path(path).read_text()).items()
    return content["ros__parameters"]


def test_each_node_gets_only_parameters_that_it_declares(options, tmp_path):
    words = "--seed 3 --sonar-rate 2 --method ovc --max-samples 90 --keep"
    given = options(*words.split())
    output = str(tmp_path / "run")
    assert {node: parameters(node, given) for node in NODES} == {
        "simulator": {
            "terrain": "seamounts", "seed": 3, "sonar_rate": 2.0,
        },
        "mapper": {"method": "ovc", "seed": 3, "output": output},
        "planner": {"max_samples": 90, "seed": 3},
        "monitor": {"output": output, "keep": True},
    }  # fmt: skip


def test_options_of_model_and_planner_go_to_their_nodes(options):
    words = "nngp.neighbours=9 path_entropy.max_leg=2 sonar.offset=1,0,-1 target.tvu=1b"
    given = options(*(word for each in words.split() for word in ("--set", each)))
    mapper = parameters("mapper", given)
    assert mapper.pop("output") and mapper == {
        "nngp.neighbours": 9, "sonar.offset": [1.0, 0.0, -1.0], "target.tvu": "1b",
    }  # fmt: skip
    assert parameters("planner", given) == {"path_entropy.max_leg": 2.0, "target.tvu": "1b"}
    assert parameters("simulator", given).keys() == {"terrain"}


def test_clock_and_frames_move_into_the_namespace(options):
    for words in (("--namespace", "/auv1/"), ("--namespace", "auv1")):
        given = options(*words)
        for command in (ros_arguments("mapper", given), rviz_command(given)):
            text = " ".join(command)
            assert all(f"-r {old}:={new}" in text for old, new in graph.remappings("auv1"))
            assert "-r __ns:=/auv1" in text
    assert "-p use_sim_time:=true" in text  # RViz, with layouts in the folder of the run
    assert command[command.index("--folder") + 1] == str(given["output"])
    assert "-r" not in ros_arguments("mapper", options())
    with pytest.raises(InputError, match="--namespace: expected letters"):
        options("--namespace", "a b")


@pytest.mark.ros
@pytest.mark.parametrize("namespace", ["", "auv/one"])
@pytest.mark.parametrize("order", [1, -1])
def test_options_override_a_parameter_file_in_any_form(namespace, order, options, tmp_path):
    rclpy = pytest.importorskip("rclpy")
    sections = {
        "/**": {"seed": 4, "sonar_rate": 5.0},
        "/**/simulator": {"seed": 5, "wait_for_mission": False, "sonar_rate": 4.0},
    }
    content = {name: {"ros__parameters": sections[name]} for name in list(sections)[::order]}
    file = tmp_path / "mission.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    given = options("--params-file", str(file), "--seed", "6", "--namespace", namespace)
    context = rclpy.Context()
    rclpy.init(args=ros_arguments("simulator", given), context=context)
    node = rclpy.create_node(
        "simulator", context=context, automatically_declare_parameters_from_overrides=True
    )
    names = ("seed", "wait_for_mission", "use_sim_time", "terrain")
    values = [node.get_parameter(name).value for name in names]
    from_file = node.get_parameter("sonar_rate").value
    node.destroy_node()
    rclpy.shutdown(context=context)
    # Options before the file, a node's own section before that of all nodes, both before sim.yaml.
    assert values == [6, False, True, "seamounts"] and from_file == 4.0


#: Says that it is up, and then ends at the signals of the second argument alone.
DEAF = """
import signal, sys, time
for name in sys.argv[1].split():
    signal.signal(getattr(signal, name), signal.SIG_IGN)
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, flush=True)
time.sleep(600)
"""


@pytest.fixture
def group(tmp_path):
    group = ProcessGroup(tmp_path)
    yield group
    group.stop(0.0)


@pytest.mark.parametrize(("ignored", "ended_by"), [("", None), ("SIGINT", -15)])
def test_processes_are_interrupted_and_then_terminated(
    group, tmp_path, eventually, ignored, ended_by
):
    group.start("node", [sys.executable, "-c", DEAF, ignored])
    eventually((tmp_path / "node.log").read_text)
    group.stop(0.1 if ignored else 60.0)
    name, status, last = group.ended()
    assert name == "node" and (status == ended_by if ended_by else "KeyboardInterrupt" in last)


def test_the_end_of_a_vital_process_is_reported_with_its_last_line(group, eventually):
    group.start("window", [sys.executable, "-c", ""], vital=False)
    group.start("deaf", [sys.executable, "-c", DEAF, ""])
    assert group.ended() is None
    code = "import os, sys; print(f'{os.getsid(0) == os.getpid()}\\n'); sys.exit(3)"
    group.start("planner", [sys.executable, "-c", code])
    assert eventually(group.ended) == ("planner", 3, "True")


def test_output_goes_to_a_log_and_warnings_to_the_display(group, tmp_path, eventually):
    text = "[INFO] a\n[WARN] b\nc\n[ERROR] d\n"
    group.start("mapper", [sys.executable, "-c", f"print({text!r}, end='')"])
    eventually(group.ended)
    assert [*group.warnings()] == ["mapper: [WARN] b", "mapper: [ERROR] d"]
    assert [*group.warnings()] == []
    assert (tmp_path / "mapper.log").read_text() == text
