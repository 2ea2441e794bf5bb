"""Trace points for the system analyser: PVTI_OPTIONS, and the module libpvti where there is one."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
from typing import Any, TypeVar

Instrumented = TypeVar("Instrumented")


def _is_enabled() -> bool:
    """Whether PVTI_OPTIONS turns tracing on; ValueError if it cannot be read."""
    text = os.environ.get("PVTI_OPTIONS", "")
    if not text.strip():
        return False
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"PVTI_OPTIONS = {text!r} is no JSON: {error}") from error
    return isinstance(options, dict) and options.get("enable") == "true"


def _load_library() -> Any:
    """The module libpvti, or None where tracing is off or there is no such module."""
    if not _is_enabled():
        return None
    try:
        return importlib.import_module("libpvti")
    except ImportError:
        return None


class Channel:
    """A row of the system analyser's trace.

    Without PVTI_OPTIONS={"enable":"true"} in the environment, or without the module libpvti, it
    records nothing.

    Args:
        name: The name of the row.

    Raises:
        ValueError: PVTI_OPTIONS is no JSON.
    """

    def __init__(self, name: str) -> None:
        self._library = _load_library()
        self._channel = self._library.createTraceChannel(name) if self._library else None

    def tracepoint(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Make a context whose duration is recorded.

        Args:
            name: What the trace calls it.

        Returns:
            The context manager.
        """
        if self._library is None:
            return contextlib.nullcontext()
        point: contextlib.AbstractContextManager[Any] = self._library.Tracepoint(
            self._channel, name
        )
        return point

    def instrument(self, obj: Instrumented, *method_names: str) -> Instrumented:
        """Record the duration of every call of some methods of an object.

        Args:
            obj: The object, whose methods are wrapped.
            *method_names: The names of the methods.

        Returns:
            `obj`.

        Raises:
            AttributeError: It has no such method.
        """
        for name in method_names:
            method = getattr(obj, name)
            if self._library is not None:
                setattr(obj, name, self._wrapped(method, name))
        return obj

    def _wrapped(self, method: Any, name: str) -> Any:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.tracepoint(name):
                return method(*args, **kwargs)

        return call
