"""`poam drive` has no topic of the water level, so no setting asks it to wait for one."""

import pytest

from poam_ros.app.cli import main
from poam_ros.app.commands.drive import ROWS


@pytest.mark.parametrize("name", ["water.await_level", "water.level_timeout"])
def test_a_level_that_never_comes_is_not_waited_for(name, capsys):
    assert name not in ROWS and "water.level" in ROWS
    with pytest.raises(SystemExit):
        main(["drive", "--set", f"{name}=1", "--workspace", "0", "10", "0", "10"])
    assert name in capsys.readouterr().err
