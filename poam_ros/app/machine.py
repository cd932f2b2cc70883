"""The machine as a survey sees it: Python, threads, the compiled parts, clock, disk."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """Something that was looked at.

    Attributes:
        text: what was found.
        advice: what to do about it; empty where all is well.
        problem: whether the survey suffers from it; else it is worth knowing.
    """

    text: str
    advice: str = ""
    problem: bool = False

    def __str__(self) -> str:
        mark = "PROBLEM" if self.problem else "note" if self.advice else "ok"
        return f"{mark:8}{self.text}" + (f": {self.advice}" if self.advice else "")


def problem(text: str, advice: str) -> Finding:
    """Something that the survey suffers from."""
    return Finding(text, advice, problem=True)


PACKAGE = Path(__file__).parents[1]
#: The compiled parts, below the package.
COMPILED = tuple(f"models/native/_{name}" for name in ("attentive", "search", "conditional"))
NEEDED = ("numpy", "scipy", "torch", "gpytorch")
PING_BYTES = 400  # of a ping on disk, with its share of indices and checkpoints
MIN_DISK, MIN_SHM = 500 * 2**20, 32 * 2**20
GROUP = "239.255.0.1"  # where DDS looks for others
MIDDLEWARE_SETTINGS = ("RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE")


def machine_findings(mission_dir: Path | None) -> Iterator[Finding]:
    """All that can be said without ROS 2."""
    yield from _versions()
    yield from _compiled()
    yield from _processor()
    yield _clock()
    yield from _disk(mission_dir)


def middleware_findings() -> Iterator[Finding]:
    """What the middleware needs of the machine."""
    values = {name: os.environ.get(name, "") for name in MIDDLEWARE_SETTINGS}
    yield Finding("middleware: " + ", ".join(f"{k}={v or '(default)'}" for k, v in values.items()))
    if os.environ.get("ROS_LOCALHOST_ONLY") == "1":
        yield Finding(
            "ROS_LOCALHOST_ONLY=1: nodes on other machines are not seen",
            "unset it where the graph spans machines",
        )
    if values["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "OFF":
        yield problem(
            "ROS_AUTOMATIC_DISCOVERY_RANGE=OFF: no node finds another",
            "unset it, or set SUBNET or LOCALHOST",
        )
    shared = Path("/dev/shm")
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        if free < MIN_SHM:
            yield problem(
                f"/dev/shm has {_size(free)} left; messages between processes go there",
                "give it more (docker run --shm-size=256m), or remove what is left there "
                "of nodes that were killed",
            )
        else:
            yield Finding(f"/dev/shm: {_size(free)} free")
    yield _multicast()


def _versions() -> Iterator[Finding]:
    found = {}
    for name in NEEDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield problem(f"{name} is not installed", f"pip install {name}")
    said = ", ".join(f"{name} {version}" for name, version in found.items())
    yield Finding(f"Python {platform.python_version()}, {said}")


def _compiled() -> Iterator[Finding]:
    if os.environ.get("POAM_NATIVE", "1") == "0":
        yield problem(
            "POAM_NATIVE=0: the compiled parts are left aside, and updates take longer", "unset it"
        )
        return
    missing = [
        part
        for part in COMPILED
        if not any((PACKAGE / f"{part}{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
    ]
    if missing:
        yield problem(
            f"not compiled: {', '.join(missing)}; updates take several times as long",
            "install a C compiler, then poam_ros again",
        )
    else:
        yield Finding("the compiled parts are there")


def _processor() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    vectors = _vectors()
    yield Finding(f"{cores} cores ({platform.machine()}, {vectors or 'no wide vectors known'})")
    if (cores or 1) < 2:
        yield Finding(
            "one core: the model and the callbacks share it", "expect updates to take twice as long"
        )
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > (cores or 1):
        yield problem(
            f"OMP_NUM_THREADS={threads} on {cores} cores: threads wait for each other",
            "unset it; the mapper's parameter `threads` sets its own",
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 1.5 * (cores or 1):
        yield problem(f"load average {load:.1f} on {cores} cores", "stop what else runs here")


def _vectors() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    flags = set(text.split())
    return ", ".join(word for flag, word in names.items() if flag in flags)


def _clock() -> Finding:
    """Whether the system's clock follows another; stamps of other machines are compared with it."""
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    if said == "no":
        advice = "start chrony or systemd-timesyncd; on one machine alone, leave it"
        return problem("the clock follows no other, so other machines' stamps are off", advice)
    if said == "yes":
        return Finding("the clock is synchronised")
    return Finding("clock: nothing is known of its synchronisation")


def _disk(mission_dir: Path | None) -> Iterator[Finding]:
    if mission_dir is None:
        return
    there = next((p for p in (mission_dir, *mission_dir.absolute().parents) if p.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK):
        yield problem(f"{mission_dir} cannot be written", "name a folder that can")
        return
    free = shutil.disk_usage(there).free
    pings = free // PING_BYTES
    if free < MIN_DISK:
        yield problem(f"{mission_dir} has {_size(free)} left, about {pings:,} pings", "make room")
    else:
        yield Finding(f"{mission_dir} has {_size(free)} left")


def _multicast() -> Finding:
    """Whether a word to the group that DDS uses comes back on this machine."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        try:
            receiver.settimeout(1.0)
            receiver.bind(("", 0))
            local = socket.inet_aton("127.0.0.1")
            membership = socket.inet_aton(GROUP) + local
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
            sender.sendto(b"poam doctor", (GROUP, receiver.getsockname()[1]))
            receiver.recv(64)
        except OSError as error:
            return Finding(
                f"multicast on loopback does not work ({error})",
                "ip link set lo multicast on; nodes on this machine may still find each "
                "other by unicast",
            )
    return Finding("multicast on loopback works")


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
