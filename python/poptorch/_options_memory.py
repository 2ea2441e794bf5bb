"""Options of memory: models that are larger than what the process may have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pando.process_memory import parse_bytes
from poptorch._option_values import OptionValues

Memory = TypeVar("Memory", bound="MemoryOptions")


@dataclass(frozen=True)
class MemoryFit:
    """What a model must fit in.

    Attributes:
        memory_bytes: The memory of the whole process.
        folder: Where files take what is not in memory.
        blocks: The paths of the modules that are phases; None: those that repeat.
    """

    memory_bytes: int
    folder: str
    blocks: tuple[str, ...] | None = None


class MemoryOptions(OptionValues):
    """Options of memory."""

    DEFAULTS: ClassVar[dict[str, Any]] = {"memory_fit": None}

    def fit_in(
        self: Memory,
        memory: str | int,
        folder: str | os.PathLike[str],
        blocks: Sequence[str] | None = None,
    ) -> Memory:
        """Keep the process within a size of memory, with files for what does not fit.

        The module's own parameters and buffers move to files. Where the whole program fits, it is
        compiled as ever. Otherwise the model runs in phases:
        the calls of its repeated modules, as the layers of a transformer, and what is before,
        between and behind them. Only the phase at work has its weights, gradients and state of the
        optimizer in memory; the next one's are loaded and the last one's stored meanwhile. What
        goes from phase to phase is kept in files; the rest of the forward pass is computed again in
        the backward pass. Results are those of the same model without this option, but random
        numbers are others. Compilation fails if a phase does not fit. `PoplarExecutor.fitPlan` says
        what was planned.

        Args:
            memory: Of the whole process: bytes, or a text such as "4GiB", in powers of 1024.
            folder: An existing folder on a disk with room for weights, state and what goes from
                phase to phase. Its files go with the executor.
            blocks: The paths of the modules that are phases, as `model.named_modules` gives them;
                None: the entries of each `ModuleList` or `Sequential` with several modules of one
                class.

        Returns:
            The options themselves.

        Raises:
            ValueError: The memory is no positive number of bytes, or the folder is none.
            AssertionError: An argument is of another type.
        """
        assert isinstance(memory, (str, int)) and not isinstance(memory, bool), (
            f"fit_in: wanted bytes as int or a text such as '4GiB'; given {memory!r}"
        )
        size = parse_bytes(str(memory))
        assert isinstance(folder, (str, os.PathLike)), f"fit_in: wanted a path; given {folder!r}"
        if not os.path.isdir(folder):
            raise ValueError(f"fit_in: there is no folder {os.fspath(folder)!r}; make it first")
        assert blocks is None or (
            not isinstance(blocks, str) and all(isinstance(path, str) for path in blocks)
        ), f"fit_in: wanted a list of paths of modules as blocks; given {blocks!r}"
        chosen = None if blocks is None else tuple(blocks)
        self._store("memory_fit", MemoryFit(size, os.fspath(folder), chosen))
        return self
