"""Trains a network on real images and leaves a report: `python -m pando_demo.images`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

import popxl
from pando.datasets import DEFAULT_FOLDER, Batches, ImageData, ImageSet, load_mnist_format
from pando.loss_watch import LossWatch
from pando.op_times import OpTime
from pando.plots import bytes_text
from pando.report import TrainingReport, write_report
from pando.session_info import actual_peak_bytes, memory_plan, op_times, open_session, timeline
from pando.timeline import Lane
from pando_demo.arguments import positive
from pando_demo.image_network import (
    InferenceProgram,
    TrainingProgram,
    inference_program,
    training_program,
)

DEFAULT_REPORT = Path("pando-report") / "report.html"
# The rate of the first step; it falls linearly to zero over the training.
LEARNING_RATE = 1e-3
TEST_BATCH_SIZE = 80
PROFILED_STEPS = 200
# Refreshing the bar at every step would cost more than the step.
STEPS_PER_BAR_UPDATE = 64


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line.

    Args:
        arguments: The arguments; None means those of the process.

    Returns:
        The options by name.
    """
    parser = argparse.ArgumentParser(prog="python -m pando_demo.images", description=__doc__)
    parser.add_argument(
        "--data", default=str(DEFAULT_FOLDER), help="an MNIST-format folder (default: %(default)s)"
    )
    parser.add_argument("--epochs", type=positive, default=1, help="default: %(default)s")
    parser.add_argument("--batch-size", type=positive, default=8, help="default: %(default)s")
    parser.add_argument("--report", default=str(DEFAULT_REPORT), help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=0, help="default: every core")
    parser.add_argument("--seed", type=int, default=42, help="default: %(default)s")
    return parser.parse_args(arguments)


@dataclass
class TrainingResult:
    """What a training gave.

    Attributes:
        losses: float32, in the order of the steps.
        images_per_second: How fast they came.
        first_bad_step: The first step whose loss was not finite; None if all were.
    """

    losses: np.ndarray
    images_per_second: float
    first_bad_step: int | None


def training_inputs(
    program: TrainingProgram, images: np.ndarray, labels: np.ndarray, learning_rate: float
) -> dict[popxl.HostToDeviceStream, np.ndarray]:
    """What one step reads.

    Args:
        program: The program.
        images: float32 (batch, height, width).
        labels: int32 (batch,).
        learning_rate: The learning rate of the step.

    Returns:
        Stream -> array.
    """
    return {
        program.images: images,
        program.labels: labels,
        program.learning_rate: np.float32(learning_rate),
    }


def train(
    session: popxl.Session, program: TrainingProgram, batches: Batches, epochs: int, batch_size: int
) -> TrainingResult:
    """Runs every batch of every epoch; call it inside the session's context.

    Args:
        session: A session of the program.
        program: The training program.
        batches: The data of an epoch.
        epochs: How often they are gone through.
        batch_size: Images in a batch.

    Returns:
        The losses and how fast they came.
    """
    steps = len(batches) * epochs
    watch = LossWatch(tqdm.write)
    start = time.perf_counter()
    with tqdm(total=steps * batch_size, unit="img", unit_scale=True, desc="training") as bar:
        for _ in range(epochs):
            for images, labels in batches:
                rate = LEARNING_RATE * (1 - watch.num_steps / steps)
                outputs = session.run(training_inputs(program, images, labels, rate))
                watch.add(outputs[program.loss])
                if watch.num_steps % STEPS_PER_BAR_UPDATE == 0:
                    bar.set_postfix_str(f"loss {watch.recent():.4f}", refresh=False)
                    bar.update(STEPS_PER_BAR_UPDATE * batch_size)
        bar.update(steps * batch_size - bar.n)
    seconds = time.perf_counter() - start
    return TrainingResult(watch.losses, steps * batch_size / seconds, watch.first_bad_step)


def accuracy(
    session: popxl.Session,
    program: InferenceProgram,
    data: ImageSet,
    batch_size: int,
    mean: float,
    deviation: float,
) -> float:
    """The share of images whose highest score is the label's.

    Args:
        session: A session of the program, not entered.
        program: The inference program.
        data: The images.
        batch_size: That of the program.
        mean: What is subtracted from pixels scaled to 0..1.
        deviation: What they are divided by then.

    Returns:
        From 0 to 1.
    """
    hits = 0
    with session:
        for start in range(0, len(data), batch_size):
            chosen = np.arange(start, min(start + batch_size, len(data)))
            # A program has one batch size: the last batch is filled up and only its start counts.
            padded = np.resize(chosen, batch_size)
            pixels = data.images[padded].astype(np.float32) / np.float32(255)
            images = (pixels - np.float32(mean)) / np.float32(deviation)
            scores = session.run({program.images: images})[program.scores]
            predicted = np.argmax(scores, axis=-1)[: len(chosen)]
            hits += int(np.sum(predicted == data.labels[chosen]))
    return hits / len(data)


def profile(
    program: TrainingProgram, batches: Batches, threads: int
) -> tuple[list[OpTime], list[Lane]]:
    """The time of every op over some steps of the training program, and the last step's timeline.

    It is a session of its own: timing every instruction slows the program down.

    Args:
        program: The training program.
        batches: The data.
        threads: The threads of the session; 0 means one for every core.

    Returns:
        A row for each op, and a lane for each device.
    """
    session = open_session(program.ir, threads, profile=True)
    with session:
        for images, labels in islice(batches, PROFILED_STEPS):
            session.run(training_inputs(program, images, labels, LEARNING_RATE))
        return op_times(session), timeline(session)


def evaluate(
    trained: popxl.Session, program: TrainingProgram, data: ImageData, threads: int
) -> float:
    """The accuracy of the trained weights on the test images, by an inference-only program.

    Args:
        trained: The session that trained.
        program: Its program.
        data: The data set.
        threads: The threads of the new session; 0 means one for every core.

    Returns:
        From 0 to 1.
    """
    batch_size = min(TEST_BATCH_SIZE, len(data.test))
    inference = inference_program(batch_size, data.image_shape, data.num_classes)
    session = open_session(inference.ir, threads)
    values = trained.get_tensors_data(program.variables.tensors)
    mapping = program.variables.to_mapping(inference.variables)
    session.write_variables_data({new: values[old].copy() for old, new in mapping.items()})
    mean, deviation = data.mean_and_deviation()
    return accuracy(session, inference, data.test, batch_size, mean, deviation)


def run_demo(options: argparse.Namespace) -> TrainingReport:
    """Trains, evaluates, profiles.

    Args:
        options: What `parse_arguments` gave.

    Returns:
        What there is to report.

    Raises:
        FileNotFoundError: The data are missing.
        ValueError: The data or the batch size cannot be used.
    """
    data = load_mnist_format(options.data)
    mean, deviation = data.mean_and_deviation()
    batches = Batches(data.train, options.batch_size, mean, deviation, options.seed)
    rng = np.random.default_rng(options.seed)
    program = training_program(options.batch_size, data.image_shape, data.num_classes, rng)
    tqdm.write(
        f"training on {len(data.train):,} images of {options.data}, {options.epochs} times; then "
        f"{len(data.test):,} test images and the times of {PROFILED_STEPS} steps"
    )
    session = open_session(program.ir, options.threads)
    with session:
        result = train(session, program, batches, options.epochs, options.batch_size)
        actual_peak = actual_peak_bytes(session)
    score = evaluate(session, program, data, options.threads)
    memory = memory_plan(session)
    times, lanes = profile(program, batches, options.threads)
    facts = [
        ("data", str(options.data)),
        ("training", f"{options.epochs} epoch(s) of {len(batches)} steps of {options.batch_size}"),
        ("accuracy on the test images", f"{100 * score:.2f} %"),
        ("throughput", f"{result.images_per_second:,.0f} images/s"),
        ("steps per second", f"{result.images_per_second / options.batch_size:,.0f}"),
        ("planned peak memory", bytes_text(memory.peak_bytes)),
        ("actual peak memory", bytes_text(actual_peak)),
    ]
    notes = []
    if result.first_bad_step is not None:
        notes.append(f"The loss was not finite from step {result.first_bad_step} on or at times.")
    return TrainingReport("Pando demo", facts, result.losses, memory, times, notes, timeline=lanes)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python -m pando_demo.images`.

    Args:
        arguments: The arguments; None means those of the process.

    Returns:
        The exit code: 0, 1 for data that cannot be used, 130 when interrupted.
    """
    options = parse_arguments(arguments)
    try:
        report = run_demo(options)
    except (FileNotFoundError, ValueError) as error:
        print(f"pando demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pando demo: interrupted", file=sys.stderr)
        return 130
    width = max(len(name) for name, _ in report.facts)
    for name, value in report.facts:
        print(f"{name:<{width}}  {value}")
    print(f"{'report':<{width}}  {write_report(options.report, report)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
