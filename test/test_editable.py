"""A type checker finds the package where it is installed to be edited."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = """\
from poam_ros import Extent
workspace = Extent(0.0, 10.0, 0.0, 10.0)
name: str = workspace.xmin
"""
#: What other packages declare is not asked about here, and takes most of the time.
CONFIG = """\
[mypy]
follow_imports = silent
[mypy-numpy.*,scipy.*,torch.*,gpytorch.*,rclpy.*]
follow_imports = skip
follow_imports_for_stubs = True
"""


@pytest.mark.slow
def test_mypy_finds_types_and_a_wrong_one(tmp_path):
    if find_spec("mypy") is None:
        pytest.skip("needs mypy")
    try:
        folder = Path(str(distribution("poam_ros").locate_file("")))
    except PackageNotFoundError:
        pytest.skip("poam_ros is not installed")
    if not list(folder.glob("*poam_ros*.pth")) and not (folder / "easy-install.pth").exists():
        # Found by its own egg-info in the checkout: look beside the interpreter.
        site = Path(pytest.__file__).parents[1]
        if not list(site.glob("*poam_ros*.pth")):
            pytest.skip("poam_ros is not installed to be edited")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(script)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'has type "float", variable has type "str"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout, done.stdout
