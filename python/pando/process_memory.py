"""The memory of this process: its peak, a limit, and what it can have."""

from __future__ import annotations

import re
import resource
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(text: str) -> int:
    """A number of bytes as users write it.

    Args:
        text: "4GiB", "512M", "1000"; units are powers of 1024.

    Returns:
        The bytes, at least 1.

    Raises:
        ValueError: It is anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    value = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if value < 1:
        raise ValueError(f"wanted a number of bytes such as 4GiB or 512M; given {text!r}")
    return value


def _field(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) << 10
    raise OSError(f"{file} has no {name}")


def _status(name: str) -> int:
    return _field(Path("/proc/self/status"), name)


def resident_bytes() -> int:
    """The memory that this process has now.

    Returns:
        Resident bytes (VmRSS).
    """
    return _status("VmRSS")


def peak_resident_bytes() -> int:
    """The most memory that this process had at once.

    Returns:
        Resident bytes at their peak since the process began (VmHWM).
    """
    return _status("VmHWM")


def claimed_bytes() -> int:
    """What of a limit on the memory of this process is used up.

    Returns:
        Resident bytes, or where `limit_private_memory` has set a limit what that counts, if it is
        more: private memory whether touched or not.
    """
    resident = resident_bytes()
    if resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        return resident
    return max(resident, _status("VmData") + _status("RssFile") + _status("RssShmem"))


def available_bytes() -> int:
    """What this process can have in memory, with what it has already.

    Returns:
        Bytes: what the system says is available, or what is left of the limit of the process's
        container (cgroup), whichever is less, and what is resident now.
    """
    left = _field(Path("/proc/meminfo"), "MemAvailable")
    try:
        limit, used = (
            (_CGROUP / f"memory.{name}").read_text().strip() for name in ("max", "current")
        )
    except OSError:
        limit = "max"
    if limit != "max":
        left = min(left, max(int(limit) - int(used), 0))
    return left + resident_bytes()


def limit_private_memory(limit: int) -> int:
    """Limits the memory that this process may have.

    RLIMIT_DATA, which counts private writable memory whether touched or not, is set to what is left
    beside mapped files. Beyond it allocations fail. A limit can be lowered again, not raised.

    Args:
        limit: Resident bytes.

    Returns:
        The value that RLIMIT_DATA now has.
    """
    mapped_files = _status("RssFile") + _status("RssShmem")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = max(limit - mapped_files, 1)
    if hard != resource.RLIM_INFINITY:
        allowed = min(allowed, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    return allowed
