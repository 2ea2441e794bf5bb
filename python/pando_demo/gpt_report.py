"""What a run of the decoder tells at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pando.phase_report import PhaseTime
from pando.plots import bytes_text
from pando.process_memory import peak_resident_bytes
from pando.session_info import memory_plan
from pando_demo.gpt_training import GptTrainer, IoCounts


@dataclass
class Progress:
    """What a run did.

    Attributes:
        losses: One per step.
        seconds: One per step.
        validation: Steps done and the loss on held-out text.
        io: Remote transfers of each training step.
        stopped: Whether the user stopped it.
        first_bad_step: The first step whose loss was not finite; None if all were.
        texts: What was written at the end.
    """

    losses: np.ndarray
    seconds: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    io: list[IoCounts] = field(default_factory=list)
    stopped: bool = False
    first_bad_step: int | None = None
    texts: list[str] = field(default_factory=list)


def summary(
    name: str, trainer: GptTrainer, progress: Progress, memory_bytes: int
) -> list[tuple[str, str]]:
    """What there is to say at the end.

    The first step is left out of the times when there are others.

    Args:
        name: The name of the shape.
        trainer: What trained.
        progress: What it did.
        memory_bytes: The limit; 0 means none.

    Returns:
        Names and texts, in order.
    """
    skipped = 1 if len(progress.seconds) > 1 else 0
    seconds = np.array(progress.seconds[skipped:])
    counts = progress.io[skipped:]
    steps = len(counts)
    total = sum(counts, IoCounts())
    waiting = total.waiting_seconds / steps
    step = float(seconds.mean())
    shape = trainer.shape
    plan = memory_plan(trainer.session)
    budget = trainer.budget
    return [
        (
            "network",
            f"{name}: {shape.parameters:,} parameters, {shape.layers} layers of {shape.hidden}",
        ),
        ("weights and optimizer state", bytes_text(12 * shape.parameters)),
        ("steps", f"{trainer.steps_done} of {trainer.tokens_per_step} tokens"),
        ("loss", f"{progress.losses[0]:.4f} at first, {progress.losses[-1]:.4f} at last"),
        (
            "loss on held-out text",
            ", ".join(f"{loss:.4f} after {steps}" for steps, loss in progress.validation),
        ),
        ("throughput", f"{trainer.tokens_per_step / step:,.1f} tokens/s"),
        ("time per step", f"{step:.2f} s"),
        ("  computing", f"{step - waiting:.2f} s"),
        ("  waiting for I/O", f"{waiting:.2f} s"),
        (
            "  I/O going on",
            f"{total.busy_seconds / steps:.2f} s, {100 * total.hidden_share:.0f} % of it hidden",
        ),
        ("loaded per step", bytes_text(total.bytes_loaded / steps)),
        ("stored per step", bytes_text(total.bytes_stored / steps)),
        ("memory limit", bytes_text(memory_bytes) if memory_bytes else "none"),
        (
            "planned peak memory",
            f"{bytes_text(plan.peak_bytes)} and {bytes_text(budget.staging_bytes)} of stores "
            "under way",
        ),
        ("peak resident memory", bytes_text(peak_resident_bytes())),
    ]


def phase_text(phase: PhaseTime, steps: int) -> str:
    """The times of a phase.

    Args:
        phase: Its totals.
        steps: How many steps they are of.

    Returns:
        Seconds per step.
    """
    return (
        f"computing {phase.compute_seconds / steps:.2f} s, waiting for I/O "
        f"{phase.waiting_seconds / steps:.2f} s, I/O going on {phase.io_seconds / steps:.2f} s"
    )


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints them as a table.

    Args:
        facts: Names and texts.
    """
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {value}", flush=True)
