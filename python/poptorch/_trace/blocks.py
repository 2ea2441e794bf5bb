"""The repeated blocks of a module, as the layers of a transformer, and which ops are theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.recorder import Recorder

_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential)


def repeated_blocks(module: torch.nn.Module) -> list[str]:
    """Find modules that are repeated one after another.

    Args:
        module: A module.

    Returns:
        The paths of the entries of lists and sequences that hold several modules of one class with
        parameters. What is inside of an entry is not looked at.
    """
    found: list[str] = []

    def look(path: str, part: torch.nn.Module) -> None:
        children = list(part.named_children())
        classes = [type(child) for _, child in children if any(True for _ in child.parameters())]
        repeats = isinstance(part, _CONTAINERS) and len(classes) > len(set(classes))
        for name, child in children:
            inner = f"{path}.{name}" if path else name
            if repeats:
                found.append(inner)
            else:
                look(inner, child)

    look("", module)
    return found


@contextmanager
def block_marks(
    module: torch.nn.Module, recorder: Recorder, paths: Collection[str]
) -> Iterator[None]:
    """Number the calls of blocks, and note them with the ops that they record.

    Args:
        module: The module that is traced.
        recorder: What records.
        paths: The paths of the blocks in the module.

    Yields:
        Nothing.

    Raises:
        Error: The module has no such part.
    """
    modules = dict(module.named_modules())
    if unknown := [path for path in paths if path not in modules]:
        raise createPoptorchError(
            f"fit_in: the blocks {unknown} are no modules of the model; there are "
            f"{[path for path in modules if path]}"
        )
    state, calls = recorder.state, recorder.recording.blocks
    open_blocks: list[torch.nn.Module] = []

    def mark(path: str, part: torch.nn.Module) -> list[Any]:
        def enter(_module: Any, _inputs: Any) -> None:
            if not open_blocks:
                open_blocks.append(part)
                state.block = len(calls)
                calls.append(path.rpartition(".")[0])

        def leave(_module: Any, _inputs: Any, _output: Any) -> None:
            if open_blocks and open_blocks[0] is part:
                open_blocks.clear()
                state.block = -1

        return [
            part.register_forward_pre_hook(enter, prepend=True),
            part.register_forward_hook(leave),
        ]

    handles = [handle for path in paths for handle in mark(path, modules[path])]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
