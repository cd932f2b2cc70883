"""The compiled sources under the compiler's sanitizers of addresses and of undefined behaviour."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from poam_ros.models.native import loader

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SOURCES = Path(loader.__file__).parent
SANITIZERS = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
COMPILER = os.environ.get("CC", "cc")


def built(source: Path, program: Path, *flags: str) -> subprocess.CompletedProcess:
    command = [COMPILER, "-g", "-O0", "-w", *SANITIZERS, *flags, str(source), "-o", str(program)]
    return subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory):
    """A compiler whose programs run with its sanitizers."""
    if shutil.which(COMPILER.split()[0]) is None:
        pytest.skip(f"no compiler {COMPILER}")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    if (
        built(folder / "probe.c", folder / "probe").returncode
        or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{COMPILER} has no sanitizers")


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("name", loader.LIBRARIES)
def test_odd_inputs_do_nothing_undefined(name, tmp_path):
    program = tmp_path / name
    flags = (f'-DSOURCE="{SOURCES / name}.c"', f"-D{name.upper()}")
    made = built(HERE / "odd_inputs.c", program, *flags)
    assert made.returncode == 0, made.stderr
    run = subprocess.run([program], capture_output=True, text=True, check=False, timeout=500)
    assert run.returncode == 0, run.stderr
