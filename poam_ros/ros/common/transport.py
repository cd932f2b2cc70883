"""How messages travel between the processes of a machine."""

from __future__ import annotations

import os
from pathlib import Path

from rclpy.utilities import get_rmw_implementation_identifier

#: Settings of Fast DDS: its transports, and a file of profiles by its present and its former name.
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"
#: Settings of ROS 2: which nodes are found; and whether only those of this machine (older).
RANGE, ONLY_HERE = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"


def avoid_shared_memory() -> None:
    """Send messages through UDP, unless the user set up Fast DDS; call this before ``rclpy.init``.

    A process that is killed leaves its port of shared memory behind. Started again, it makes a new
    port of the same number. Others may go on writing to the old one, and then it never hears them.
    Where only nodes of this machine are found, rmw_fastrtps uses shared memory whatever Fast DDS is
    told. So the same is set up by a profile: UDP through 127.0.0.1.
    """
    if any(os.environ.get(name) for name in (TRANSPORTS, *PROFILES)):
        return
    if not get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
        return
    if os.environ.get(RANGE) == "LOCALHOST" or os.environ.get(ONLY_HERE) == "1":
        profile = str(Path(__file__).with_name("loopback.xml"))
        os.environ.update(dict.fromkeys(PROFILES, profile))
        os.environ[RANGE] = "SUBNET"
        os.environ.pop(ONLY_HERE, None)
    else:
        os.environ[TRANSPORTS] = "UDPv4"
