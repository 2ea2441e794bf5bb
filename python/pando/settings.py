"""What the engine is asked to do beyond the program: threads, profiling, a memory limit, where
remote buffers live.

PANDO_REMOTE_TIER, PANDO_REMOTE_FOLDER, PANDO_REMOTE_IO and PANDO_MACHINE_CODE in the environment
set `remote_tier`, `remote_folder`, `remote_io` and `machine_code` for programs that do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class SessionSettings:
    """What the engine is asked to do for sessions made while the settings are in force.

    Attributes:
        num_threads: Threads of all replicas together; 0 means one for every core.
        profile: Whether the time of every op is recorded.
        memory_limit_bytes: Bytes of device memory of one replica; 0 means no limit.
        device_memory_limit_bytes: The same of each virtual device (`popxl.ipu`) of a replica.
        collective_timeout_seconds: How long a replica waits for another one in a collective.
        cache_limit_bytes: Bytes of all compiled programs in a cache folder (session option
            cachePath) together; those not used for longest are removed. 0 means no limit.
        machine_code: Whether fused arithmetic becomes machine code: "auto" (where it pays), "never"
            or "always". Results are the same.
        flush_denormals: Whether denormal numbers count as zero, which they do in most uses: one
            costs up to a hundred cycles. If not, arithmetic keeps them, unless the calling thread
            has asked the processor to flush them; functions such as exp may still give zero.
        keep_host_values: Whether the host keeps the values of variables that a session has brought
            to the device. If not, they take memory once: only the device has them, until they are
            asked for or the session ends, and `weights_from_host` cannot undo what it did.
        remote_tier: Where remote buffers live: "ram", or "file" for files in remote_folder.
        remote_folder: The folder for those files.
        remote_tiers: Buffer id -> tier, for buffers that live elsewhere than remote_tier says.
        remote_staging_bytes: File tier, of one replica: bytes of stores that the program has gone
            past.
        remote_prefetch_bytes: File tier, of one replica: bytes of device memory that loads may
            occupy before the program's order asks for them.
        remote_io_threads: File tier: I/O threads of one replica.
        remote_direct: File tier: whether transfers go past the page cache, where the file system
            allows it.
        remote_io: File tier: "io_uring", several pieces of a row at a time on each thread;
            "threads", one at a time on each; "auto", io_uring where the kernel has it.
    """

    num_threads: int = 0
    profile: bool = False
    memory_limit_bytes: int = 0
    device_memory_limit_bytes: int = 0
    collective_timeout_seconds: float = 600.0
    cache_limit_bytes: int = 1 << 30
    machine_code: str = field(default_factory=lambda: os.environ.get("PANDO_MACHINE_CODE", "auto"))
    flush_denormals: bool = True
    keep_host_values: bool = True
    remote_tier: str = field(default_factory=lambda: os.environ.get("PANDO_REMOTE_TIER", "ram"))
    remote_folder: str = field(default_factory=lambda: os.environ.get("PANDO_REMOTE_FOLDER", ""))
    remote_tiers: Mapping[int, str] = field(default_factory=dict)
    remote_staging_bytes: int = 256 << 20
    remote_prefetch_bytes: int = 256 << 20
    remote_io_threads: int = 2
    remote_direct: bool = True
    remote_io: str = field(default_factory=lambda: os.environ.get("PANDO_REMOTE_IO", "auto"))

    def remote(self) -> dict[str, Any]:
        """The remote settings as the engine takes them.

        Returns:
            Name -> value.
        """
        return {
            "tier": self.remote_tier,
            "tiers": dict(self.remote_tiers),
            "folder": os.fspath(self.remote_folder),
            "staging_bytes": self.remote_staging_bytes,
            "prefetch_bytes": self.remote_prefetch_bytes,
            "io_threads": self.remote_io_threads,
            "direct": self.remote_direct,
            "io": self.remote_io,
        }


_settings: ContextVar[SessionSettings] = ContextVar("pando_session_settings")


def session_settings() -> SessionSettings:
    """The settings in force.

    Returns:
        Those of the innermost `use_session_settings` around the call, else the defaults.
    """
    return _settings.get(SessionSettings())


@contextmanager
def use_session_settings(**changes: Any) -> Iterator[SessionSettings]:
    """Changes settings for sessions made in the body: `use_session_settings(num_threads=1)`.

    Args:
        **changes: Attributes of `SessionSettings`; others stay as they are.

    Yields:
        The settings in force in the body.

    Raises:
        TypeError: There is no such setting.
    """
    token = _settings.set(replace(session_settings(), **changes))
    try:
        yield session_settings()
    finally:
        _settings.reset(token)
