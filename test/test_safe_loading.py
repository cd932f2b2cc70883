"""What is read from files or heard cannot run code, name a file, or fill the memory."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "poam_ros").rglob("*.py")) + sorted((ROOT / "launch").glob("*.py"))
#: Modules that make objects, code or processes of bytes.
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal",
                  "shelve"}  # fmt: skip
UNSAFE_CALLS = {"eval", "exec", "compile", "torch.load", "torch.save", "os.system", "yaml.load",
                "yaml.unsafe_load", "yaml.full_load", "numpy.fromregex"}  # fmt: skip
#: Calls that one place alone may make: with yaml's safe loader, and with limits on the memory.
ALLOWED = {
    ("poam_ros/core/reading.py", "yaml.load"), ("poam_ros/core/reading.py", "json.loads"),
    ("poam_ros/simulation/world/terrain.py", "np.load"),  # matplotlib's own
}  # fmt: skip
UNBOUNDED = {"np.load", "yaml.safe_load", "json.load", "csv.writer", "csv.DictWriter"}
#: Last parts of the names of calls that open, make or remove what a path names.
OPENERS = {
    "open", "Path", "load", "loadtxt", "fromfile", "read_text", "read_bytes", "write_text",
    "write_bytes", "mkdir", "unlink", "connect", "rename", "savez", "save",
}  # fmt: skip
FILES = {"pathlib", "os", "io", "shutil", "sqlite3", "tempfile", "glob"}
#: Modules that make values of messages: nothing in them may touch the file system at all.
READERS = (
    "common/messages.py", "common/clouds.py", "common/transforms.py", "common/qos.py",
    "mapper/topics.py",
)  # fmt: skip


@cache
def calls(tree):
    """(dotted name, call) of every call."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), node) for node in nodes]


@cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_that_is_loaded_can_run_code(path):
    tree, wrong = parse(path), []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        wrong += [name for name in names if name.split(".")[0] in UNSAFE_MODULES]
    for name, call in calls(tree):
        inside = path.relative_to(ROOT).as_posix()
        if name in UNSAFE_CALLS | UNBOUNDED and (inside, name) not in ALLOWED:
            wrong.append(name)
        for keyword in call.keywords:
            false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "allow_pickle" and not false:
                wrong.append("allow_pickle")
            if keyword.arg == "shell" and not false:
                wrong.append("a shell")
    assert not wrong


def test_yaml_is_read_as_plain_values_only():
    import yaml

    from poam_ros.core import reading

    assert issubclass(reading._UniqueLoader, reading._Loader)
    assert issubclass(reading._Loader, yaml.SafeLoader)


@pytest.mark.parametrize("name", READERS)
def test_what_reads_messages_opens_nothing(name):
    tree = parse(ROOT / "poam_ros/ros" / name)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
                for alias in node.names}  # fmt: skip
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & FILES
    assert "open" not in {called for called, _ in calls(tree)}


@pytest.mark.parametrize("path", sorted((ROOT / "poam_ros/ros").rglob("node.py")), ids=str)
def test_no_callback_makes_a_path_of_a_message(path):
    """In a function that is given a message or a request, nothing is opened with it in hand."""
    wrong = []
    for function in ast.walk(parse(path)):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {argument.arg for argument in function.args.args} & {"message", "request"}
        for name, call in calls(function):
            if name.split(".")[-1] in OPENERS:
                words = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
                wrong += [f"{function.name}: {ast.unparse(call)}"] if words & given else []
    assert not wrong


#: Queues that a length does not bound by itself, and what does.
BOUNDED = {
    "poam_ros/journal/writer.py": (
        "MAX_QUEUED_PINGS, counted as log_full; MAX_QUEUED_ON_FAILURE while the disk fails"
    ),
    "poam_ros/frontend/front_end.py": "capacity, counted as no_odometry",
    "poam_ros/frontend/refused_pings.py": "WAITING; the oldest is counted without a place",
    "poam_ros/mission/itinerary.py": "a planner's path, refilled when empty",
    "poam_ros/mavlink/drive.py": "a person's commands; what one step of the model loop reports",
    "poam_ros/mavlink/simulated_boat.py": "messages of the last delay_s seconds",
    "poam_ros/simulation/world/simulator.py": "pings under way, at most a few travel times",
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_queue_has_a_bound(path):
    for name, call in calls(parse(path)):
        if name.split(".")[-1] not in ("deque", "Queue", "SimpleQueue", "LifoQueue"):
            continue
        bound = {keyword.arg for keyword in call.keywords} & {"maxlen", "maxsize"}
        known = path.relative_to(ROOT).as_posix() in BOUNDED
        assert bound or call.args[1:] or known, f"{ast.unparse(call)} grows without end"


#: Files that need not appear whole, and why.
PARTIAL = {
    "poam_ros/core/files.py": "writes beside the file, and renames",
    "poam_ros/app/commands/sim.py": "logs of processes",
    "poam_ros/journal/database.py": "copies into a folder that is renamed",
    "poam_ros/journal/tables.py": "a temporary copy",
    "poam_ros/journal/transactions.py": "appends to the journal",
    "poam_ros/research/sweeps/folder.py": "into a folder that is renamed",
}
SAVERS = {"savefig", "savez", "savez_compressed", "save", "savetxt", "tofile", "ZipFile"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_written_whole(path):
    """A full disk leaves no half file: what is written goes through ``atomic_write``."""
    wrong = []
    for name, call in calls(parse(path)):
        last, given = name.split(".")[-1], ", ".join(map(ast.unparse, call.args))
        texts = {a.value for a in call.args if isinstance(a, ast.Constant)}
        opened = (
            last == "open"
            and any(isinstance(t, str) and len(t) < 4 and set(t) & set("wax+") for t in texts)
            and "os.devnull" not in given
        )
        copied = last in ("write_text", "write_bytes", "copyfile", "copy", "copytree")
        saved = last in SAVERS and "/" in given  # not an open file, nor a buffer
        if opened or saved or (copied and (last != "copy" or name.startswith("shutil"))):
            wrong.append(ast.unparse(call))
    assert not wrong or path.relative_to(ROOT).as_posix() in PARTIAL
