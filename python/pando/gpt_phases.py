"""Where the time of the phased decoder goes, phase by phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The graph of each phase's loop over micro-batches -> what the phase is called.
_PHASES = {
    "Embedding": "embedding forward",
    "Block": "layers forward",
    "HeadBackward": "head forward and backward",
    "BlockBackward": "layers backward",
    "EmbeddingBackward": "embedding backward",
}
_LOOP = "__repeat_graph"
_TRAIN = "_Phases.train"


@dataclass
class PhaseTime:
    """Seconds of all phases of one kind together."""

    name: str
    calls: int = 0
    # Loops over micro-batches and updates, without waiting.
    computing: float = 0.0
    # For weights and moments, which come while the phase before computes.
    waiting_for_state: float = 0.0
    # For layer inputs and their gradients, in the loop.
    waiting_for_inputs: float = 0.0
    # Handing results to the I/O threads.
    storing: float = 0.0


def _phase_of(graph: str) -> str | None:
    return _PHASES.get(graph.partition(_LOOP)[0].partition("_subgraph")[0])


def _called(row: Any) -> str | None:
    """The phase whose loop, or whose graph in a loop that is part of the program, is called."""
    kind, _, graph = row.kernel.partition(" ")
    return _phase_of(graph) if kind in ("Call", "Loop") else None


def _is_wait(row: Any) -> bool:
    return str(row.kernel).startswith(("RemoteLoadWait ", "RemoteLoad "))


def _buffer_of(row: Any) -> int:
    return int(row.kernel.split()[1])


def phase_times(trace: Iterable[Any], buffers: Mapping[int, str]) -> list[PhaseTime]:
    """By kind of phase, from the instructions of a session that profiles.

    `buffers`: the key of each buffer of weights and moments by its index (`block.fwd.qkv.weight`).
    """
    rows = list(trace)
    phases = {name: PhaseTime(name) for name in _PHASES.values()}
    current = phases["embedding forward"]
    is_backward = False
    waited = 0.0
    for row in rows:
        if not row.function.startswith(_TRAIN):
            continue
        name = _called(row)
        if name is not None:
            current = phases[name]
            is_backward = is_backward or current.name.startswith("head")
            current.calls += row.calls
            current.computing += row.seconds
            current.waiting_for_inputs += waited
            waited = 0.0
        elif _is_wait(row):
            key = buffers.get(_buffer_of(row))
            if key is None:
                waited += row.seconds
            else:
                phases[_owner(key.split(".")[0], is_backward)].waiting_for_state += row.seconds
        elif row.kernel.startswith("RemoteStore "):
            current.storing += row.seconds
        else:
            current.computing += row.seconds
    _add_waits_in_loops(rows, phases)
    return [phase for phase in phases.values() if phase.calls]


def _add_waits_in_loops(rows: Sequence[Any], phases: Mapping[str, PhaseTime]) -> None:
    """Loops that several layers share are functions of their own."""
    # By phase: in all calls of its loop, and in those of training steps.
    everywhere: dict[str, float] = defaultdict(float)
    training: dict[str, float] = defaultdict(float)
    for row in rows:
        if _LOOP in row.kernel and (name := _called(row)) is not None:
            everywhere[name] += row.seconds
            if row.function.startswith(_TRAIN):
                training[name] += row.seconds
    for name, seconds in everywhere.items():
        phase = phases[name]
        waited = sum(
            row.seconds
            for row in rows
            if _is_wait(row) and _LOOP in row.function and _phase_of(row.function) == name
        )
        # Evaluation runs some of the loops too: each has its share.
        waited *= training[name] / seconds if seconds > 0 else 0.0
        phase.waiting_for_inputs += waited
        phase.computing -= waited


def _owner(part: str, is_backward: bool) -> str:
    """The phase that waits for state of a part of the network."""
    if part == "head":
        return "head forward and backward"
    direction = "backward" if is_backward else "forward"
    return f"{'layers' if part == 'block' else part} {direction}"
