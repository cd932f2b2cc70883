"""The arguments of the nodes that `poam sim` starts, as in the launch file."""

from pathlib import Path

import pytest
import yaml

from poam_ros.app import graph
from poam_ros.app.command import Parser
from poam_ros.app.commands.sim import add_arguments, resolve, ros_arguments, rviz_command
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
    given = options("--seed", "3", "--sonar-rate", "2", "--method", "ovc", "--max-samples", "90")
    output = str(tmp_path / "run")
    assert {node: parameters(node, given) for node in NODES} == {
        "simulator": {
            "terrain": "seamounts", "seed": 3, "sonar_rate": 2.0,
        },
        "mapper": {"method": "ovc", "seed": 3, "output": output},
        "planner": {"max_samples": 90, "seed": 3},
        "monitor": {"output": output},
    }  # fmt: skip


def test_planner_and_mapper_get_the_map_target(options):
    target = "tvu=1b", "share=0.9", "distance=25", "depth_factor=3"
    given = options(*(word for each in target for word in ("--set", f"target.{each}")))
    assert parameters("planner", given) == {
        "target.tvu": "1b", "target.share": 0.9, "target.distance": 25.0,
        "target.depth_factor": 3.0,
    }  # fmt: skip
    mapper = parameters("mapper", given)
    assert mapper.pop("output") and mapper == {"target.tvu": "1b"}
    assert "target.tvu" not in parameters("simulator", given)


def test_options_of_model_and_planner_go_to_their_nodes(options):
    words = "--set nngp.neighbours=9 --set path_entropy.max_leg=2 --set sonar.offset=1,0,-1"
    given = options(*words.split())
    assert parameters("mapper", given)["nngp.neighbours"] == 9
    assert parameters("mapper", given)["sonar.offset"] == [1.0, 0.0, -1.0]
    assert parameters("planner", given)["path_entropy.max_leg"] == 2.0
    assert not {"nngp.neighbours", "path_entropy.max_leg"} & parameters("simulator", given).keys()


def test_an_unknown_target_is_refused(options, capsys):
    with pytest.raises(SystemExit) as ended:
        options("--set", "target.tvu=1c")
    assert ended.value.code == 2 and "expected one of exclusive" in capsys.readouterr().err


def test_keep_goes_to_the_monitor(options):
    assert parameters("monitor", options("--keep"))["keep"] is True


def test_clock_and_frames_move_into_the_namespace(options):
    for words in (("--namespace", "/auv1/"), ("--namespace", "auv1")):
        given = options(*words)
        for command in (ros_arguments("mapper", given), rviz_command(given)):
            text = " ".join(command)
            assert all(f"-r {old}:={new}" in text for old, new in graph.remappings("auv1"))
            assert "-r __ns:=/auv1" in text
    assert "-r" not in ros_arguments("mapper", options())
    with pytest.raises(InputError, match="--namespace: expected letters"):
        options("--namespace", "a b")


def test_rviz_is_fitted_in_the_folder_of_the_run(options):
    command = rviz_command(options("--namespace", "auv1"))
    assert command[command.index("--folder") + 1] == str(options()["output"])
    words = " ".join(command)
    assert "-p use_sim_time:=true" in words and "-r __ns:=/auv1" in words


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
