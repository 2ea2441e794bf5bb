"""Small helpers shared by the package and used by programs."""

from __future__ import annotations

import collections
import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from popxl.tensor import Variable

Key = TypeVar("Key")
Value = TypeVar("Value")
Item = TypeVar("Item")


class OrderedDict(collections.OrderedDict[Key, Value]):
    """An ordered dict with access by position and one printed line per item."""

    def idx(self, position: int) -> Value:
        """A value by position.

        Args:
            position: In insertion order, from 0; a negative one counts from the end.

        Returns:
            The value.
        """
        return list(self.values())[position]

    def __repr__(self) -> str:
        if not self:
            return "{}"
        lines = "".join(f"{key}: {value},\n" for key, value in self.items())
        return "{\n" + lines + "}"


class WeightsDict(MutableMapping[Variable, np.ndarray]):
    """Variables and their host values, checked as they are set.

    A value that has another dtype or shape than the variable on the host raises ValueError.

    Args:
        *args: As for dict.
        **kwargs: As for dict.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._data: dict[Variable, np.ndarray] = {}
        self.update(dict(*args, **kwargs))

    def __getitem__(self, variable: Variable) -> np.ndarray:
        return self._data[variable]

    def __setitem__(self, variable: Variable, value: np.ndarray) -> None:
        wanted = variable.dtype.as_numpy()
        if value.dtype != wanted:
            raise ValueError(
                f"The value for {variable} has dtype {value.dtype}, the variable needs {wanted}."
            )
        if tuple(value.shape) != tuple(variable.shape_on_host):
            raise ValueError(
                f"The value for {variable} has shape {tuple(value.shape)}, "
                f"the variable needs {tuple(variable.shape_on_host)}."
            )
        self._data[variable] = value

    def __delitem__(self, variable: Variable) -> None:
        del self._data[variable]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"WeightsDict({self._data})"


def _log_to_wandb(title: str, minutes: float) -> None:
    """Adds the duration to the summary of a running wandb session, when there is one."""
    # Whoever runs a session has imported it: who has none need not wait for that.
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:
        run.summary[f"{title}_mins"] = minutes


@contextmanager
def timer(title: str | None = None, log_to_wandb: bool = True) -> Iterator[None]:
    """Logs how many minutes the body takes.

    Args:
        title: Named in the log; None names nothing.
        log_to_wandb: Whether a running run of wandb gets the minutes as `<title>_mins`.
    """
    if title:
        logging.info("Starting %s", title)
    start = time.perf_counter()
    yield
    minutes = (time.perf_counter() - start) / 60
    if title:
        logging.info("%s duration: %.2f mins", title, minutes)
        if log_to_wandb:
            _log_to_wandb(title, minutes)
    else:
        logging.info("Duration: %.2f mins", minutes)


@contextmanager
def null_context() -> Iterator[None]:
    """A context that does nothing."""
    yield


def suffix_graph_name(name: str, suffix: str) -> str:
    """The name of a graph that is made of another one.

    Args:
        name: The name of the other one.
        suffix: What the new graph is.

    Returns:
        `name` without any `_subgraph(n)`, followed by `_suffix`.
    """
    return re.sub(r"_subgraph\(\d+\)", "", name) + f"_{suffix}"


def overrides(cls: type, base: type, method: str) -> bool:
    """Whether a class has its own form of a method.

    Args:
        cls: The class.
        base: The class that defines the method.
        method: The name of the method.

    Returns:
        True if `cls` has another `method` than `base`.
    """
    return getattr(cls, method) is not getattr(base, method)


def duplicate_items(items: Iterable[Item]) -> list[Item]:
    """What is in a list more than once.

    Args:
        items: Items that can be hashed.

    Returns:
        Those seen more than once, in the order of their first appearance.
    """
    counts: Mapping[Item, int] = collections.Counter(items)
    return [item for item, count in counts.items() if count > 1]
