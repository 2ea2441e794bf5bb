"""Notices when other processes use the cores while a block is timed (Linux; else always quiet).

One busy neighbour makes a program that meets at OpenMP barriers many times slower, so such a
block says nothing about the framework.
"""

from __future__ import annotations

import os
from pathlib import Path

# A share of all cores together: ticks of 10 ms make smaller ones of a short block meaningless.
QUIET_SHARE = 0.05


def _machine_ticks() -> tuple[int, int] | None:
    """(busy, all) ticks of all cores since start, or None where the system does not say."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(field) for field in fields]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def _process_ticks(pid: int) -> int:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return int(after_name[11]) + int(after_name[12])


class NeighbourWatch:
    """Created before a block; ``share()`` after it: what others took of the machine, 0 to 1."""

    def __init__(self, worker_pid: int) -> None:
        self._pids = {worker_pid, os.getpid()}
        self._machine = _machine_ticks()
        self._own = sum(map(_process_ticks, self._pids))

    def share(self) -> float:
        now = _machine_ticks()
        if self._machine is None or now is None or now[1] == self._machine[1]:
            return 0.0
        own = sum(map(_process_ticks, self._pids)) - self._own
        others = now[0] - self._machine[0] - own
        return max(0.0, others / (now[1] - self._machine[1]))
