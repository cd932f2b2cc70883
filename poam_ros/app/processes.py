"""Child processes that start together and end together. No rclpy."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class ProcessGroup:
    """Starts processes whose output goes to log files, watches them, and ends them in order.

    Every child has a session of its own, so that a Ctrl-C in the terminal reaches this process
    alone, and each child is told once.

    Args:
        log_folder: where ``<name>.log`` is written; it must exist.
        alert: called with a line whenever a child logs a warning or worse.
        spawn: as ``subprocess.Popen``.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        log_folder: Path,
        alert: Callable[[str], None],
        *,
        spawn: Callable[..., subprocess.Popen[str]] = subprocess.Popen,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spawn, self._clock = spawn, clock
        self._folder = log_folder
        self._alert = alert
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._vital: list[str] = []
        self._readers: dict[str, threading.Thread] = {}
        self._last_lines: dict[str, str] = {}

    def start(self, name: str, command: Sequence[str], *, vital: bool = True) -> None:
        """Start ``command``, its output going to ``<name>.log``; others outlive one not vital."""
        process = self._spawn(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._processes[name] = process
        if vital:
            self._vital.append(name)
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        reader.start()
        self._readers[name] = reader

    def ended(self) -> tuple[str, int, str] | None:
        """A vital child that ended: its name, exit status and last line; None while all run."""
        for name in self._vital:
            status = self._processes[name].poll()
            if status is not None:
                self._readers[name].join(timeout=1.0)
                return name, status, self._last_lines.get(name, "")
        return None

    def stop(self, grace: float = 10.0) -> None:
        """Interrupt all children, then insist: SIGINT, after ``grace`` s SIGTERM, then SIGKILL."""
        for number, wait in ((signal.SIGINT, grace), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
            running = [p for p in self._processes.values() if p.poll() is None]
            for process in running:
                process.send_signal(number)
            deadline = self._clock() + wait
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - self._clock()))
        for reader in self._readers.values():
            reader.join(timeout=1.0)

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        """Copy a child's output to its log until it closes."""
        assert process.stdout is not None
        with (self._folder / f"{name}.log").open("w", encoding="utf-8") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if line.strip():
                    self._last_lines[name] = line.strip()
                if line.startswith(("[WARN]", "[ERROR]", "[FATAL]")):
                    self._alert(f"{name}: {line.strip()}")
