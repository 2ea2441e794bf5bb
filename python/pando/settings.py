"""What the engine is asked to do beyond the program: threads, profiling, a memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class SessionSettings:
    """Options of sessions made while they are in force."""

    # Of all replicas together. 0: every core.
    num_threads: int = 0
    # Whether the time of every op is recorded.
    profile: bool = False
    # Bytes of device memory of one replica; 0: no limit.
    memory_limit_bytes: int = 0
    # How long a replica waits for another one in a collective.
    collective_timeout_seconds: float = 600.0
    # Bytes of all compiled programs in a cache folder (session option cachePath) together; those
    # not used for longest are removed. 0: no limit.
    cache_limit_bytes: int = 1 << 30


_settings: ContextVar[SessionSettings] = ContextVar("pando_session_settings")


def session_settings() -> SessionSettings:
    """The settings in force."""
    return _settings.get(SessionSettings())


@contextmanager
def use_session_settings(**changes: Any) -> Iterator[SessionSettings]:
    """Changes settings for sessions made in the body: `use_session_settings(num_threads=1)`."""
    token = _settings.set(replace(session_settings(), **changes))
    try:
        yield session_settings()
    finally:
        _settings.reset(token)
