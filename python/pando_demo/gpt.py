"""Trains a GPT-2 style decoder that may be larger than memory: `python -m pando_demo.gpt`.

Weights, optimizer state and layer inputs are in files; what a phase needs is loaded while the
phase before it computes. What it will take of disk, memory and time is said first, and what cannot
fit is refused. Ctrl-C stops after the step and saves; --resume goes on. At the end it writes some
text.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import popart
from pando.checkpoint import CheckpointError, checkpoints
from pando.loss_watch import LossWatch
from pando.plots import bytes_text
from pando.process_memory import available_bytes, limit_private_memory
from pando.report import TrainingReport, write_report
from pando.session_info import memory_plan, op_times, phase_times
from pando.text_data import TextBatches, read_tokens
from pando_demo.arguments import positive
from pando_demo.gpt_arguments import chosen_shape, chosen_text, gpt_parser, parse_gpt
from pando_demo.gpt_network import GptShape
from pando_demo.gpt_plan import RunSize, check_disk, check_memory, measure_rates, plan_facts
from pando_demo.gpt_program import EVALUATION
from pando_demo.gpt_report import Progress, phase_text, show_facts, summary
from pando_demo.gpt_text import (
    DEFAULT_BYTES,
    TextOptions,
    show_texts,
    write_texts,
    writer_within,
)
from pando_demo.gpt_training import GptOptions, GptTrainer, checkpoint_folder
from pando_demo.gpt_writer import GptWriter
from pando_demo.stop_request import EXIT_INTERRUPTED, stop_request

DEFAULT_FOLDER = Path("pando-gpt")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line.

    Args:
        arguments: The arguments; None means those of the process.

    Returns:
        The options by name.
    """
    parser = gpt_parser(
        "python -m pando_demo.gpt",
        __doc__,
        folder=DEFAULT_FOLDER,
        memory=0,
        memory_help="of the whole process, e.g. 4GiB (no limit)",
        steps=20,
        text_bytes=DEFAULT_BYTES,
    )
    add = parser.add_argument
    add("--tier", choices=("file", "ram"), default="file", help="where state is (%(default)s)")
    add("--validate-every", type=positive, help="steps (only at the beginning and the end)")
    add("--threads", type=int, default=0, help="(every core)")
    add("--report", type=Path, help="the HTML report (report.html in --folder)")
    return parse_gpt(parser, arguments)


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
        told = "stopping after this step; once more stops at once, without saving"
        with stop_request(told) as stop, tqdm(total=options.steps, unit="step") as bar:
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


def run_size(
    shape: GptShape, training: GptOptions, text: TextOptions, options: argparse.Namespace
) -> RunSize:
    """The work that the arguments ask for.

    Args:
        shape: Of the network.
        training: How it is trained.
        text: What is written at the end.
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
        text.texts,
        text.passes,
    )


@dataclass(frozen=True)
class Prepared:
    """What runs.

    Attributes:
        trainer: Not entered.
        batches: The text it is trained on.
        text: What is written at the end.
        writer: Writes it, not entered; None: nothing is written.
    """

    trainer: GptTrainer
    batches: TextBatches
    text: TextOptions
    writer: GptWriter | None


def prepare(shape: GptShape, training: GptOptions, options: argparse.Namespace) -> Prepared:
    """Reads the text, says what the run will take and compiles it.

    Args:
        shape: Of the network.
        training: How it is trained.
        options: The arguments.

    Returns:
        All that runs.

    Raises:
        ValueError: Disk or memory cannot hold the run, or texts are longer than the network allows.
    """
    text = chosen_text(shape, options, DEFAULT_BYTES)
    tokens = read_tokens(options.data)
    sequences = (training.micro_batches, training.micro_batch, shape.sequence)
    batches = TextBatches(tokens, sequences, options.seed)
    size = run_size(shape, training, text, options)
    check_disk(size)
    rates = measure_rates(size)
    available = available_bytes()
    if options.memory:
        limit_private_memory(options.memory)
    trainer = GptTrainer(shape, training)
    need = trainer.process_bytes()
    limit = min(available, options.memory or available)
    writer, refusal = None, ""
    if text.count:
        writer, refusal = writer_within(shape, training, text.texts, limit - need)
    if writer is None:
        size = replace(size, passes=0)
    while_writing = need + (writer.memory_bytes if writer else 0)
    facts = plan_facts(size, rates, while_writing, available)
    if text.count:
        facts.append(("texts", refusal or f"{text.texts} of {text.count} bytes, at the end"))
    show_facts(facts)
    check_memory(need, limit)
    return Prepared(trainer, batches, text, writer)


def write(prepared: Prepared) -> tuple[list[str], str]:
    """Writes the texts; what goes wrong here costs no training.

    Args:
        prepared: Its trainer is entered.

    Returns:
        The texts, and why there are none.
    """
    if prepared.writer is None:
        return [], ""
    try:
        with stop_request("no more text; once more stops at once") as stop:
            return write_texts(prepared.writer, prepared.trainer, prepared.text, stop), ""
    except (OSError, ValueError, MemoryError, popart.popart_exception) as error:
        return [], f"No text was written: {error}"


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
    name, shape = chosen_shape(options)
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
    prepared = prepare(shape, training, options)
    trainer, batches = prepared.trainer, prepared.batches
    if options.plan:
        return None
    notes = []
    with trainer:
        begin(trainer, batches, options.resume)
        progress = DemoRun(trainer, batches, options).run()
        times = op_times(trainer.session)
        phases = phase_times(trainer.session)
        if not progress.stopped:
            progress.texts, refusal = write(prepared)
            notes += [refusal] if refusal else []
    facts = summary(name, trainer, progress, options.memory)
    facts += [
        (f"  {phase.name}", phase_text(phase, len(progress.seconds)))
        for phase in phases
        if phase.name not in ("", EVALUATION)
    ]
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
    for note in report.notes:
        print(f"pando gpt: {note}", file=sys.stderr)
    show_texts(progress.texts)
    if progress.stopped and not options.no_save:
        print("stopped; --resume goes on")
    return EXIT_INTERRUPTED if progress.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
