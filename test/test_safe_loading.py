"""What is read is bounded, what waits is bounded, what is written appears whole. That nothing read
can run code, ruff says: the rules S of pyproject.toml."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "poam_ros").rglob("*.py")) + sorted((ROOT / "launch").glob("*.py"))
#: Calls that the readers of core make within limits on the memory, and others must not.
LOADERS = {"np.load", "yaml.load", "yaml.safe_load", "json.load", "csv.writer", "csv.DictWriter"}
READERS = ("core/reading.py", "simulation/terrain.py")  # the latter: matplotlib's own
#: Queues that a length does not bound by itself, and what does.
BOUNDED = {
    "journal/writer.py": "MAX_QUEUED_PINGS, counted as log_full; MAX_QUEUED_ON_FAILURE",
    "frontend/front_end.py": "capacity, counted as no_odometry",
    "frontend/refused_pings.py": "WAITING; the oldest is counted without a place",
    "mission/itinerary.py": "a planner's path, refilled when empty",
    "mavlink/drive.py": "a person's commands; what one step of the model loop reports",
    "mavlink/simulated_boat.py": "messages of the last delay_s seconds",
    "simulation/simulator.py": "pings under way, at most a few travel times",
}
#: Files that need not appear whole, and why.
PARTIAL = {
    "core/files.py": "writes beside the file, and renames",
    "app/commands/sim.py": "logs of processes",
    "journal/database.py": "appends to the journal; copies into a folder that is renamed",
    "journal/tables.py": "a temporary copy",
    "research/sweep.py": "into a folder that is renamed",
}
SAVERS = {"savefig", "savez", "savez_compressed", "save", "savetxt", "tofile", "ZipFile"}


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """The file, the dotted name and the node of every call."""
    return [
        (path.as_posix(), ast.unparse(node.func), node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def loads(name: str, call: ast.Call) -> bool:
    pickled = next((word.value for word in call.keywords if word.arg == "allow_pickle"), None)
    return name in LOADERS or (pickled is not None and ast.unparse(pickled) != "False")


def grows(name: str, call: ast.Call) -> bool:
    bound = {keyword.arg for keyword in call.keywords} & {"maxlen", "maxsize"}
    queue = name.split(".")[-1] in ("deque", "Queue", "SimpleQueue", "LifoQueue")
    return queue and not (bound or call.args[1:])


def writes(name: str, call: ast.Call) -> bool:
    """Whether it writes a file under its final name, not through ``atomic_write``."""
    last, given = name.split(".")[-1], ", ".join(map(ast.unparse, call.args))
    texts = {a.value for a in call.args if isinstance(a, ast.Constant)}
    modes = {t for t in texts if isinstance(t, str) and len(t) < 4 and set(t) & set("wax+")}
    opened = last == "open" and modes and "os.devnull" not in given
    copied = last in ("write_text", "write_bytes", "copyfile", "copytree") or name == "shutil.copy"
    saved = last in SAVERS and "/" in given  # not an open file, nor a buffer
    return bool(opened or copied or saved)


@pytest.mark.parametrize(
    ("found", "allowed"),
    [(loads, READERS), (grows, tuple(BOUNDED)), (writes, tuple(PARTIAL))],
)
def test_only_the_places_that_take_care_of_it(found, allowed):
    wrong = [
        f"{file}:{call.lineno}: {ast.unparse(call)}"
        for file, name, call in calls()
        if found(name, call) and not file.endswith(allowed)
    ]
    assert not wrong, "\n".join(wrong)
