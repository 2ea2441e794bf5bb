"""Trains a GPT-2 style decoder that may be larger than memory: `python -m pando_demo.gpt`.

Weights, optimizer state and layer inputs are in files; what a phase needs is loaded while the
phase before it computes. What it will take of disk, memory and time is said first, and what cannot
fit is refused. Ctrl-C stops after the step and saves; --resume goes on.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from tqdm import tqdm

import popart
from pando.checkpoint import CheckpointError, checkpoints
from pando.loss_watch import LossWatch
from pando.phase_report import PhaseTime
from pando.plots import bytes_text
from pando.process_memory import (
    available_bytes,
    limit_private_memory,
    parse_bytes,
    peak_resident_bytes,
)
from pando.report import TrainingReport, write_report
from pando.session_info import memory_plan, op_times, phase_times
from pando.text_data import TextBatches, read_tokens
from pando_demo.arguments import positive
from pando_demo.gpt_network import SHAPES, GptShape, shape_of
from pando_demo.gpt_plan import RunSize, check_disk, check_memory, measure_rates, plan_facts
from pando_demo.gpt_program import EVALUATION
from pando_demo.gpt_training import GptOptions, GptTrainer, IoCounts, checkpoint_folder

DEFAULT_FOLDER = Path("pando-gpt")
EXIT_INTERRUPTED = 130


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line.

    Args:
        arguments: The arguments; None means those of the process.

    Returns:
        The options by name.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pando_demo.gpt",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--params", default="25M", help=f"{', '.join(SHAPES)}, or the nearest (%(default)s)")
    for name in ("layers", "hidden", "heads", "sequence"):
        add(f"--{name}", type=positive, help="instead of that of --params")
    add("--memory", type=_bytes, default=0, help="of the whole process, e.g. 4GiB (no limit)")
    add("--steps", type=positive, default=20, help="updates to make now (%(default)s)")
    add("--batch", type=positive, default=8, help="sequences in an update (%(default)s)")
    add("--micro-batches", type=positive, default=2, help="parts of the batch (%(default)s)")
    add("--learning-rate", type=float, default=3e-4, help="(%(default)s)")
    add("--warmup-steps", type=positive, help="until that rate (20 for 25M to 383 for 1.5B)")
    add("--data", help="any text file (Perl's manual)")
    add("--folder", type=Path, default=DEFAULT_FOLDER, help="for all state (%(default)s)")
    add("--tier", choices=("file", "ram"), default="file", help="where state is (%(default)s)")
    add("--resume", action="store_true", help="go on from the state saved in --folder")
    add(
        "--save-every",
        type=positive,
        help="steps between checkpoints, each a copy of all state (only at the end)",
    )
    add("--no-save", action="store_true", help="keep nothing of this run")
    add("--validate-every", type=positive, help="steps (only at the beginning and the end)")
    add("--plan", action="store_true", help="only say what the run will take, and end")
    add("--seed", type=int, default=42, help="(%(default)s)")
    add("--threads", type=int, default=0, help="(every core)")
    add("--report", type=Path, help="the HTML report (report.html in --folder)")
    options = parser.parse_args(arguments)
    if options.batch % options.micro_batches:
        parser.error(f"{options.micro_batches} micro-batches do not divide {options.batch}")
    return options


@contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Takes Ctrl-C and termination as a wish to stop; a second one stops at once.

    Yields:
        Tells whether a stop was asked for.

    Raises:
        KeyboardInterrupt: It was asked for a second time.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        tqdm.write("stopping after this step; once more stops at once, without saving")

    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in known:
        signal.signal(number, handle)
    try:
        yield lambda: asked
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)


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
    """

    losses: np.ndarray
    seconds: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    io: list[IoCounts] = field(default_factory=list)
    stopped: bool = False
    first_bad_step: int | None = None


def bytes_bar(text: str, trainer: GptTrainer) -> Any:
    """A progress bar over all state of a trainer.

    Args:
        text: What is done with it.
        trainer: Whose remote buffers are counted.

    Returns:
        A tqdm bar, to be updated with bytes.
    """
    total = trainer.remote_bytes()
    return tqdm(desc=text, total=total, unit="B", unit_scale=True, unit_divisor=1024, leave=False)


class DemoRun:
    """Trains and tells about it.

    Args:
        trainer: The trainer, which is entered.
        batches: The text.
        options: What `parse_arguments` gave.
    """

    def __init__(
        self, trainer: GptTrainer, batches: TextBatches, options: argparse.Namespace
    ) -> None:
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._progress = Progress(np.empty(0, np.float32))

    def run(self) -> Progress:
        """Makes all steps, validates and saves.

        Returns:
            What it did.
        """
        options, progress = self._options, self._progress
        watch = LossWatch(tqdm.write)
        self._validate()
        with stop_request() as stop, tqdm(total=options.steps, unit="step") as bar:
            for done in range(1, options.steps + 1):
                loss = self._step()
                watch.add(np.array(loss, np.float32))
                bar.set_postfix_str(self._status(loss), refresh=False)
                bar.update()
                progress.stopped = stop()
                is_last = done == options.steps or progress.stopped
                if options.validate_every and done % options.validate_every == 0 and not is_last:
                    self._validate()
                if options.save_every and done % options.save_every == 0 and not is_last:
                    self._save()
                if is_last:
                    break
            progress.losses, progress.first_bad_step = watch.losses, watch.first_bad_step
            if not progress.stopped:
                self._validate()
            self._save()
        return progress

    def _step(self) -> float:
        batch = self._batches.next()
        before, start = self._trainer.io(), time.perf_counter()
        loss = self._trainer.step(batch)
        self._progress.seconds.append(time.perf_counter() - start)
        self._progress.io.append(self._trainer.io() - before)
        return loss

    def _status(self, loss: float) -> str:
        seconds, io = self._progress.seconds[-1], self._progress.io[-1]
        moved = bytes_text((io.bytes_loaded + io.bytes_stored) / seconds)
        return (
            f"loss {loss:.4f}, {self._trainer.tokens_per_step / seconds:,.0f} tokens/s, "
            f"I/O {moved}/s, {100 * io.hidden_share:.0f} % of it hidden"
        )

    def _validate(self) -> None:
        loss = self._trainer.evaluate(self._batches.validation())
        steps = self._trainer.steps_done
        self._progress.validation.append((steps, loss))
        tqdm.write(f"loss on held-out text at step {steps}: {loss:.4f}")

    def _save(self) -> None:
        if self._options.no_save:
            return
        with bytes_bar(f"saving step {self._trainer.steps_done}", self._trainer) as bar:
            self._trainer.save(self._batches, bar.update)


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


def _phase_text(phase: PhaseTime, steps: int) -> str:
    """Seconds per step."""
    return (
        f"computing {phase.compute_seconds / steps:.2f} s, waiting for I/O "
        f"{phase.waiting_seconds / steps:.2f} s, I/O going on {phase.io_seconds / steps:.2f} s"
    )


def run_size(shape: GptShape, training: GptOptions, options: argparse.Namespace) -> RunSize:
    """The work that the arguments ask for.

    Args:
        shape: Of the network.
        training: How it is trained.
        options: The arguments.

    Returns:
        What there is to estimate.
    """
    evaluations, saves = 2, 1
    if options.validate_every:
        evaluations += (options.steps - 1) // options.validate_every
    if options.save_every:
        saves += (options.steps - 1) // options.save_every
    return RunSize(
        shape,
        training,
        options.steps,
        evaluations,
        0 if options.no_save else saves,
        options.resume,
        bool(checkpoints(checkpoint_folder(training.folder))),
    )


def prepare(
    shape: GptShape, training: GptOptions, options: argparse.Namespace
) -> tuple[GptTrainer, TextBatches]:
    """Reads the text, says what the run will take and compiles it.

    Args:
        shape: Of the network.
        training: How it is trained.
        options: The arguments.

    Returns:
        The trainer, not entered, and the text.

    Raises:
        ValueError: Disk or memory cannot hold the run.
    """
    tokens = read_tokens(options.data)
    sequences = (training.micro_batches, training.micro_batch, shape.sequence)
    batches = TextBatches(tokens, sequences, options.seed)
    size = run_size(shape, training, options)
    check_disk(size)
    rates = measure_rates(size)
    available = available_bytes()
    if options.memory:
        limit_private_memory(options.memory)
    trainer = GptTrainer(shape, training)
    need = trainer.process_bytes()
    show_facts(plan_facts(size, rates, need, available))
    check_memory(need, min(available, options.memory or available))
    return trainer, batches


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints them as a table.

    Args:
        facts: Names and texts.
    """
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {value}", flush=True)


def begin(trainer: GptTrainer, batches: TextBatches, resume: bool) -> None:
    """Gives a trainer its first state.

    Args:
        trainer: Entered.
        batches: Its text.
        resume: Whether the state is that of the last checkpoint; else it is drawn.
    """
    if resume:
        with bytes_bar("loading", trainer) as bar:
            loaded = trainer.resume(batches, bar.update)
        tqdm.write(f"going on from step {loaded.step} in {loaded.path}")
        return
    count = trainer.shape.parameters
    with tqdm(desc="drawing weights", total=count, unit_scale=True, leave=False) as bar:
        trainer.initialise(bar.update)


def run_demo(options: argparse.Namespace) -> tuple[TrainingReport, Progress] | None:
    """Trains, validates, saves.

    Args:
        options: The arguments.

    Returns:
        What there is to report; None when only the plan was asked for.

    Raises:
        ValueError: Disk or memory cannot hold the run.
    """
    name, known = shape_of(options.params)
    shape: GptShape = known.with_changes(
        **{size: getattr(options, size) for size in ("layers", "hidden", "heads", "sequence")}
    )
    training = GptOptions(
        micro_batch=options.batch // options.micro_batches,
        micro_batches=options.micro_batches,
        learning_rate=options.learning_rate,
        warmup_steps=options.warmup_steps,
        seed=options.seed,
        memory_bytes=options.memory,
        tier=options.tier,
        folder=options.folder,
        threads=options.threads,
        profile=True,
    )
    trainer, batches = prepare(shape, training, options)
    if options.plan:
        return None
    with trainer:
        begin(trainer, batches, options.resume)
        progress = DemoRun(trainer, batches, options).run()
        times = op_times(trainer.session)
        phases = phase_times(trainer.session)
    facts = summary(name if shape == known else "custom", trainer, progress, options.memory)
    facts += [
        (f"  {phase.name}", _phase_text(phase, len(progress.seconds)))
        for phase in phases
        if phase.name not in ("", EVALUATION)
    ]
    notes = []
    if progress.first_bad_step is not None:
        notes.append(f"The loss was not finite from step {progress.first_bad_step} on or at times.")
    plan = memory_plan(trainer.session)
    report = TrainingReport(
        "Pando decoder", facts, progress.losses, plan, times, notes, phases=phases
    )
    return report, progress


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python -m pando_demo.gpt`.

    Args:
        arguments: The arguments; None means those of the process.

    Returns:
        The exit code: 0, 1 for what cannot be done, 130 when stopped.
    """
    options = parse_arguments(arguments)
    try:
        result = run_demo(options)
    except KeyboardInterrupt:
        print("pando gpt: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except MemoryError as error:
        print(
            f"pando gpt: the process does not keep to --memory: {error}; give more, or make "
            "micro-batches smaller",
            file=sys.stderr,
        )
        return 1
    except (OSError, ValueError, CheckpointError, popart.popart_exception) as error:
        print(f"pando gpt: {error}", file=sys.stderr)
        return 1
    if result is None:
        return 0
    report, progress = result
    path = write_report(options.report or options.folder / "report.html", report)
    show_facts([*report.facts, ("report", str(path))])
    if progress.stopped and not options.no_save:
        print("stopped; --resume goes on")
    return EXIT_INTERRUPTED if progress.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
