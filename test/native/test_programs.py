"""The programs that ``test_arm`` runs, of which most machines have no compiler, are of the present
sources."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "poam_ros" / "models" / "native"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("program", sorted(HERE.glob("run_*.c")), ids=lambda path: path.stem)
def test_a_program_is_of_the_present_source(program):
    command = ["gcc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
