"""Checks of the machine: Python, compiled parts, processor, clock, disk, network."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..models.native.loader import missing_parts


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        text: what was found.
        advice: what to do about it; empty if all is well.
        problem: whether it harms the survey; otherwise it is a note.
    """

    text: str
    advice: str = ""
    problem: bool = False

    def __str__(self) -> str:
        mark = "PROBLEM" if self.problem else "note" if self.advice else "ok"
        return f"{mark:8}{self.text}" + (f": {self.advice}" if self.advice else "")


def problem(text: str, advice: str) -> Finding:
    """A finding that harms the survey."""
    return Finding(text, advice, problem=True)


NEEDED = ("numpy", "scipy", "torch", "gpytorch")
PING_BYTES = 400  # on disk for a ping, including indices and checkpoints
MIN_DISK, MIN_SHM = 500 * 2**20, 32 * 2**20
GROUP = "239.255.0.1"  # multicast group of DDS discovery
MIDDLEWARE_SETTINGS = ("RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE")


def machine_findings(mission_dir: Path | None) -> Iterator[Finding]:
    """The checks that need no ROS 2."""
    yield from _versions()
    yield _compiled()
    yield from _processor()
    yield _clock()
    yield from _disk(mission_dir)


def middleware_findings() -> Iterator[Finding]:
    """The checks of what the middleware needs."""
    values = {name: os.environ.get(name, "") for name in MIDDLEWARE_SETTINGS}
    yield Finding("middleware: " + ", ".join(f"{k}={v or '(default)'}" for k, v in values.items()))
    if os.environ.get("ROS_LOCALHOST_ONLY") == "1":
        yield Finding(
            "ROS_LOCALHOST_ONLY=1: nodes on other machines are not seen",
            "unset it if the graph spans machines",
        )
    if values["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "OFF":
        yield problem(
            "ROS_AUTOMATIC_DISCOVERY_RANGE=OFF: nodes do not find each other",
            "unset it, or set SUBNET or LOCALHOST",
        )
    shared = Path("/dev/shm")
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        if free < MIN_SHM:
            yield problem(
                f"/dev/shm has {_size(free)} left; messages of other nodes use it",
                "enlarge it (docker run --shm-size=256m), or remove the files of nodes that "
                "were killed",
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
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    yield Finding(f"Python {platform.python_version()}, {text}")


def _compiled() -> Finding:
    missing = missing_parts()
    if missing and os.environ.get("POAM_NATIVE") == "0":
        return problem(f"POAM_NATIVE=0: {missing}", "unset it")
    return (
        problem(missing, "updates take longer until then")
        if missing
        else Finding("the compiled parts are loaded")
    )


def _processor() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    vectors = _vectors()
    yield Finding(f"{cores} cores ({platform.machine()}, {vectors or 'no known vector unit'})")
    if (cores or 1) < 2:
        yield Finding("one core for model and callbacks", "expect updates to take twice as long")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > (cores or 1):
        yield problem(
            f"OMP_NUM_THREADS={threads} on {cores} cores: more threads than cores",
            "unset it; the mapper's parameter `threads` sets its own",
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 1.5 * (cores or 1):
        advice = "stop other programs; a lack of cores may explain what is too slow below"
        yield problem(f"load average {load:.1f} on {cores} cores", advice)


def _vectors() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    flags = set(text.split())
    return ", ".join(word for flag, word in names.items() if flag in flags)


def _clock() -> Finding:
    """Whether the system clock is synchronised, so that other machines' stamps fit."""
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    if text == "no":
        advice = "start chrony or systemd-timesyncd; not needed for a single machine"
        return problem("the clock is not synchronised: other machines' stamps do not fit", advice)
    if text == "yes":
        return Finding("the clock is synchronised")
    return Finding("the clock: synchronisation unknown")


def _disk(mission_dir: Path | None) -> Iterator[Finding]:
    if mission_dir is None:
        return
    there = next((p for p in (mission_dir, *mission_dir.absolute().parents) if p.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK):
        yield problem(f"{mission_dir} cannot be written", "choose another folder")
        return
    free = shutil.disk_usage(there).free
    pings = free // PING_BYTES
    if free < MIN_DISK:
        yield problem(
            f"{mission_dir} has {_size(free)} left, about {pings:,} pings", "free some space"
        )
    else:
        yield Finding(f"{mission_dir} has {_size(free)} left")


def _multicast() -> Finding:
    """Whether a message to the multicast group of DDS arrives on this machine."""
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
