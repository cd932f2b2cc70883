"""The C sources built for 64-bit Arm and run in an emulator: NEON computes what SSE2 does.

Most machines have no compiler for Arm; there the programs are compared with the sources only."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import setuptools
from setuptools import Extension

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAMS = sorted(path.stem.removeprefix("run_") for path in HERE.glob("run_*.c"))

#: Fused operations round once where others round twice. Kriging enlarges that by its condition
#: number, so values are compared with the largest of their array.
FUSED = 256
#: The network is float32.
PRECISIONS = {"network": np.float32}
#: As good as any other optimisation where nothing is fused, and quickly compiled.
UNFUSED = "-O1", "-ffp-contract=off", "-Wno-maybe-uninitialized"  # -O1 sees less

TOOLS = ("gcc", "aarch64-linux-gnu-gcc", "qemu-aarch64")
MISSING = [tool for tool in TOOLS if not shutil.which(tool)]
PACKAGES = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
needs_tools = pytest.mark.skipif(
    bool(MISSING), reason=f"needs {', '.join(MISSING)} (apt install {PACKAGES})"
)


@cache
def extensions() -> dict[str, Extension]:
    """The compiled parts by the names of their sources, as setup.py describes them."""
    described: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", lambda **settings: described.update(settings))
        runpy.run_path("setup.py")
    # Of each source for x86 that for SSE2, whose vectors are as long as NEON's.
    return {
        Path(extension.sources[0]).stem: extension
        for extension in described["ext_modules"]
        if extension.name.endswith("_2")
    }


def results(name: str, folder: Path, arm: bool, *flags: str) -> dict[str, np.ndarray]:
    """What one of the programs prints, built with the package's own flags and these."""
    program = folder / f"{name}-{'arm' if arm else 'x86'}"
    extension = extensions()[name]
    subprocess.run(
        [
            "aarch64-linux-gnu-gcc" if arm else "gcc", "-static", "-Wall", "-Wextra", "-Werror",
            *extension.extra_compile_args, *flags, f"-I{(ROOT / extension.sources[0]).parent}",
            str(HERE / f"run_{name}.c"), "-o", str(program), "-lm",
        ],
        check=True,
    )  # fmt: skip
    command = ["qemu-aarch64", str(program)] if arm else [str(program)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [line.split() for line in ran.stdout.splitlines()]
    return {row[0]: np.array([float.fromhex(value) for value in row[1:]]) for row in rows}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request, tmp_path_factory):
    """The name of a program, a folder, and what it computes on x86, where nothing is fused."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, results(request.param, folder, False, *UNFUSED)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_there_is_a_program_for_every_source():
    assert set(PROGRAMS) == set(extensions())
    for name, extension in extensions().items():
        folder = (ROOT / extension.sources[0]).parent
        checked = "gcc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{folder}"
        done = subprocess.run([*checked, HERE / f"run_{name}.c"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@needs_tools
def test_neon_computes_what_sse2_does(program):
    """To 4 units in the last place, where neither fuses products and sums."""
    name, folder, x86 = program
    arm = results(name, folder, True, *UNFUSED)
    assert list(x86) == list(arm) and len(x86) > 3
    for key, values in x86.items():
        assert np.isfinite(values).all(), key
        np.testing.assert_array_max_ulp(values, arm[key], maxulp=4)


@pytest.mark.slow
@needs_tools
def test_neon_as_it_is_installed_differs_by_rounding_alone(program):
    """Arm has fused operations everywhere, which SSE2 has not."""
    name, folder, x86 = program
    arm = results(name, folder, True)
    for key, values in x86.items():
        largest = PRECISIONS.get(name, np.float64)(np.abs(values).max())
        allowed = FUSED * np.spacing(largest)
        np.testing.assert_allclose(arm[key], values, rtol=0, atol=allowed, err_msg=key)
