"""Atomic files, locks, and names that cannot leave their folder."""

import os
import shlex
import subprocess

import numpy as np
import pytest

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.files import (
    CHECKSUMS,
    atomic_write,
    damaged_files,
    lock,
    verify,
    within,
    write_checksums,
)
from poam_ros.outputs.folder import read_map


def test_a_file_appears_when_it_is_complete_and_synced(tmp_path, monkeypatch):
    path, calls = tmp_path / "x", []
    path.write_text("before")
    fsync, replace = os.fsync, type(path).replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("sync") or fsync(fd))
    monkeypatch.setattr(type(path), "replace", lambda *a: calls.append("name") or replace(*a))
    with atomic_write(path) as file:
        file.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after" and calls == ["sync", "name", "sync"]
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "after" and [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_lock_is_held_until_it_is_closed(tmp_path):
    first = lock(tmp_path / "l")
    with pytest.raises(BlockingIOError):
        lock(tmp_path / "l")
    first.close()
    lock(tmp_path / "l", wait=True).close()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/etc", "a/../../b", "a//b", "../m/x", "link/x", "x\0", "a/."]
)
def test_a_name_from_a_file_cannot_leave_its_folder(tmp_path, name):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="expected a path inside it"):
        within(tmp_path / "m", name)
    assert within(tmp_path / "m", "runs/a b:c/seed-1") == tmp_path / "m/runs/a b:c/seed-1"


def test_a_map_with_flipped_bits_is_refused_or_the_same(tmp_path):
    path, draw = tmp_path / "map.npz", np.random.default_rng(3)
    arrays = {name: draw.normal(size=(9, 9)) for name in ("mean", "variance", "lengthscale")}
    arrays |= {"x": np.arange(9.0), "y": np.arange(9.0), "inducing_points": np.zeros((1, 2))}
    np.savez_compressed(path, **arrays, samples=7, stamp_ns=0)
    data, refused = path.read_bytes(), 0
    for _ in range(200):
        damaged = bytearray(data)
        damaged[draw.integers(len(data))] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        try:
            np.testing.assert_array_equal(read_map(path).mean, arrays["mean"])
        except InputError as error:
            assert "map.npz: expected" in str(error)
            refused += 1
    assert refused > 100


def test_files_are_compared_with_the_checksums_beside_them(tmp_path):
    for name in ("a.csv", "b c.npz"):
        (tmp_path / name).write_text(name)
    verify(tmp_path / "a.csv")  # nothing is listed
    write_checksums(tmp_path, ["a.csv"])
    write_checksums(tmp_path, ["b c.npz"])
    done = subprocess.run(["sha256sum", "-c", CHECKSUMS], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0 and damaged_files(tmp_path) == []
    (tmp_path / "a.csv").write_text("A.csv")
    with pytest.raises(InputError, match=f"damaged: .*poam repair {tmp_path}"):
        verify(tmp_path / "a.csv")
    assert damaged_files(tmp_path) == [tmp_path / "a.csv"]
    with atomic_write(tmp_path / "a.csv") as file:  # on purpose: it is no longer listed
        file.write(b"new")
    assert damaged_files(tmp_path) == []
    (tmp_path / "b c.npz").unlink()
    for content in (b"", b"\xff\xfe", b"0" * 64 + b"  ../x\n", b"0" * 64 + b"  \0\n"):
        (tmp_path / CHECKSUMS).write_bytes(content)
        verify(tmp_path / "a.csv")
        assert damaged_files(tmp_path) == []


def test_the_command_of_an_error_works_when_it_is_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Ann's results"
    folder.mkdir()
    (folder / "map.npz").write_text("map")
    write_checksums(folder, ["map.npz"])
    (folder / "map.npz").write_text("Map")
    with pytest.raises(InputError) as refused:
        verify((folder / "map.npz").relative_to(tmp_path))
    monkeypatch.chdir("/")
    poam, *words = shlex.split(str(refused.value).rpartition(": ")[2])
    assert poam == "poam" and main(words) == 0
    assert "repaired" in capsys.readouterr().out and not (folder / "map.npz").exists()
    assert list(folder.glob("damaged-*/map.npz"))
    assert main(words) == 0 and "nothing is damaged" in capsys.readouterr().out
