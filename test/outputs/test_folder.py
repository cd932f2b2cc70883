"""Files of a run round trip, and incomplete files never appear."""

import resource
from types import SimpleNamespace

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.core.samples import Samples
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.outputs import folder as results
from poam_ros.outputs.crossings import COLUMNS, CrossingTable
from poam_ros.outputs.run import SessionResults, read_unmapped


def snapshot():
    grid = Grid.cells(Extent(0, 3, 0, 2), 1.0)
    values = np.arange(6.0).reshape(2, 3)
    fields = {"lengthscale": values + 2, "roughness": values + 3}
    return ElevationMap(grid, values, values + 1, fields, np.ones((4, 2)), 17, 99)


def test_map_survives_the_file(tmp_path):
    results.write_map(tmp_path / "map.npz", snapshot())
    with np.load(tmp_path / "map.npz") as data:
        names = {"x", "y", "mean", "variance", "lengthscale", "inducing_points"}
        assert names <= set(data)
        assert data["mean"].shape == (len(data["y"]), len(data["x"])) == (2, 3)
    read = results.read_map(tmp_path / "map.npz")
    np.testing.assert_array_equal(read.variance, snapshot().variance)
    np.testing.assert_array_equal(read.support, snapshot().support)
    assert (read.samples, read.stamp_ns) == (17, 99)
    assert set(read.fields) == {"lengthscale", "roughness"}
    for name, values in snapshot().fields.items():
        np.testing.assert_array_equal(read.fields[name], values)


def test_samples_are_written_to_the_millimetre(tmp_path):
    xy, z = np.random.default_rng(0).normal(size=(50, 2)), np.random.default_rng(1).normal(size=50)
    results.write_samples(tmp_path / "samples.csv", xy, z)
    assert (tmp_path / "samples.csv").read_text().startswith("x,y,z\n0.126,-0.132,")
    table = results.read_table(tmp_path / "samples.csv")
    found = np.column_stack((table["x"], table["y"], table["z"]))
    np.testing.assert_array_equal(found, np.round(np.column_stack((xy, z)), 3))
    far = np.array([[5801136.0794, -0.0004]])
    line = {"line": np.array(["L7"]), "row": np.array([12])}
    results.write_samples(tmp_path / "samples.csv", far, np.array([-0.0]), **line)
    text = (tmp_path / "samples.csv").read_text()
    assert text == "x,y,z,line,row\n5801136.079,0.0,0.0,L7,12\n"


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "epochs.csv"
    results.write_table(path, ("a",), [(1.0,)])
    with pytest.raises(TypeError):
        results.write_table(path, ("a",), [1.0])
    assert path.read_text() == "a\n1\n"
    assert [p.name for p in tmp_path.iterdir()] == ["epochs.csv"]


def test_broken_or_missing_files_are_named(tmp_path):
    (tmp_path / "map.npz").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"map\.npz"):
        results.read_map(tmp_path / "map.npz")
    with pytest.raises(InputError, match=r"no such file; expected the folder of a run or mission$"):
        results.read_map(tmp_path / "nowhere" / "map.npz")
    flat = np.zeros((2, 2))
    arrays = {"mean": flat, "variance": flat, "lengthscale": flat, "samples": 1}
    for x, support in (
        ([0.0, 0.0], flat),
        ([0.0, np.nan], flat),
        ([0.0, 1.0, 2.0], flat),
        ([0.0, 1.0], 1.0),
    ):
        np.savez(tmp_path / "map.npz", x=x, y=[0.0, 1.0], inducing_points=support, **arrays)
        with pytest.raises(InputError, match=r"map\.npz: expected a map\.npz of this package"):
            results.read_map(tmp_path / "map.npz")
    (tmp_path / "epochs.csv").write_text("samples\nmany\n")
    with pytest.raises(InputError, match=r"epochs\.csv"):
        results.read_table(tmp_path / "epochs.csv")
    with pytest.raises(InputError, match="none"):
        results.read_table(tmp_path / "none.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        results.make_folder(tmp_path / "file" / "run")


def test_missing_columns_and_short_rows_are_named(tmp_path):
    path = tmp_path / "t.csv"
    results.write_table(path, ("name", "n"), [('a,"b"', 1), ("c", 2)])
    assert [row["name"] for row in results.read_records(path, ("name",))] == ['a,"b"', "c"]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"t\.csv.*missing: c"):
        results.read_table(path, ("a", "c"))
    with pytest.raises(InputError, match="missing: c"):
        results.read_records(path, ("a", "c"))
    path.write_text("a,b\n1\n")
    for read in (results.read_records, results.read_table):
        with pytest.raises(InputError, match=r"expected 2 values.* in row 2"):
            read(path, ("a",))
    for cell in ("", "x;y"):
        path.write_text(f"a,day,b\n1,2023-11-14,2\n3,,{cell}\n")
        with pytest.raises(InputError, match=rf"t\.csv: .*string '{cell}'.* in row 3, column 3"):
            results.read_table(path, ("a",))


def test_numbers_and_texts_of_a_table_have_their_types(tmp_path):
    path = tmp_path / "t.csv"
    results.write_table(path, ("x", "line", "file"), [(1.5, 'a,"b"', "7"), (np.nan, "=c", "")])
    table = results.read_table(path, ("x",))
    np.testing.assert_array_equal(table["x"], [1.5, np.nan])
    assert table["line"].tolist() == ['a,"b"', "'=c"] and table["file"].tolist() == ["7", ""]
    results.write_table(path, ("x", "line"), [])
    assert [len(column) for column in results.read_table(path).values()] == [0, 0]


def test_crossings_of_an_older_folder_are_read(tmp_path):
    text = f'{",".join(COLUMNS)},verdict\nL2,L1,,5,2,-0.983,27.2,26.3,,0,"L2, deeper"\n'
    (tmp_path / "crossings.csv").write_text(text)
    table = CrossingTable.read(tmp_path / "crossings.csv")
    assert table.lines.tolist() == [["L2", "L1"]] and table.difference.tolist() == [-0.983]


# --- Maps saved during a mission ---

GRID = Grid.cells(Extent(0, 40, 0, 20), 1.0)
RNG = np.random.default_rng(0)
DRAWN = ElevationMap(GRID, RNG.normal(-9, 1, GRID.shape), np.ones(GRID.shape), samples=7)
XY = RNG.uniform(0, 20, (9, 2))
PINGS = Samples.of(XY, np.arange(9.0) - 20)


def saved(folder):
    return results.save(folder, DRAWN, PINGS, {"seed": 1})


def test_each_map_has_its_own_folder_with_its_pings(tmp_path):
    (tmp_path / "saved" / ".map-001-7-samples" / "x").mkdir(parents=True)  # of a killed process
    places = [saved(tmp_path)[0] for _ in range(2)]
    assert [place.name for place in places] == ["map-001-7-samples", "map-002-7-samples"]
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {p.name for p in places}
    np.testing.assert_array_equal(results.read_map(places[0] / "map.npz").mean, DRAWN.mean)
    table = results.read_table(places[1] / "samples.csv")
    np.testing.assert_allclose(table["x"], XY[:7, 0], rtol=0, atol=5e-4)


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands in for it: writing fails in the middle, as there."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            saved(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list((tmp_path / "saved").iterdir())
    assert saved(tmp_path)[0].is_dir()


# --- The mapper's part, at the end and after an interruption ---

CELLS = Grid.cells(Extent(0, 4, 0, 4), 1.0)
LAKE = ElevationMap(CELLS, np.ones(CELLS.shape), np.ones(CELLS.shape), samples=3)
SAMPLES = Samples.of(np.array([[0.1, 0.2], [1 / 3, 2.0], [3.0, 4.0]]), np.array([-1.0, 2.0, 1e-9]))
REFUSED = RefusedPings.none().more(
    "paused", np.array([0, 7]), np.array([[0.333, 2.0, np.nan], [np.nan] * 3])
)


def interrupted(output, drawn, samples):
    """What is written of a session that is interrupted."""
    session = SimpleNamespace(
        journal=SimpleNamespace(folder=None), status=SimpleNamespace(finished=False), map=drawn,
        wrap_up=lambda now: [], all_samples=lambda: samples, refused_and_withdrawn=REFUSED,
    )  # fmt: skip
    return SessionResults(session, str(output)).write_interrupted(None, False, None)


def test_an_interrupted_pilot_survey_replaces_no_earlier_run(tmp_path):
    assert interrupted(tmp_path, None, Samples.empty()) == "" and not [*tmp_path.iterdir()]
    assert interrupted(tmp_path, None, SAMPLES) == f"wrote samples.csv in {tmp_path}"
    (tmp_path / "map.npz").write_bytes(b"of an earlier run")
    (tmp_path / "samples.csv").write_text("of an earlier run")
    assert interrupted(tmp_path, None, SAMPLES) == ""
    assert (tmp_path / "samples.csv").read_text() == "of an earlier run"
    assert interrupted(tmp_path, LAKE, SAMPLES) == f"wrote samples.csv and map.npz in {tmp_path}"
    assert repr(read_unmapped(tmp_path).refused.rows) == repr(REFUSED.rows)
    assert interrupted("", LAKE, SAMPLES) == "", "without a folder nothing is saved"


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="output: cannot write"):
        interrupted(tmp_path / "file" / "run", None, SAMPLES)
