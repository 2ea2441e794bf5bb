"""Trains a GPT-2 of transformers that may be larger than memory: `python -m pando_demo.torch_gpt`.

The model is that of the package transformers, in PyTorch. `poptorch` keeps the process within
--memory: weights, state of the optimizer and what goes from layer to layer are in files. What it
will take of disk, memory and time is said first, and what cannot fit is refused. Ctrl-C stops after
the step and saves; --resume goes on. At the end it writes some text.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import poptorch
from pando.checkpoint import CheckpointError, checkpoints
from pando.plots import bytes_text
from pando.process_memory import (
    available_bytes,
    limit_private_memory,
    peak_resident_bytes,
    resident_bytes,
)
from pando.sampling import sample_tokens
from pando.text_data import Batch, TextBatches, read_tokens
from pando_demo.gpt_arguments import chosen_shape, chosen_text, gpt_parser, parse_gpt
from pando_demo.gpt_network import GptShape
from pando_demo.gpt_plan import RunSize, check_disk, measure_rates, plan_facts
from pando_demo.gpt_report import show_facts
from pando_demo.gpt_text import TextOptions, show_texts
from pando_demo.gpt_training import GptOptions, checkpoint_folder, default_warmup_steps
from pando_demo.gpt_writer import readable
from pando_demo.stop_request import EXIT_INTERRUPTED, stop_request
from pando_demo.torch_gpt_model import NextToken, ScoresAt, make_model, write

DEFAULT_FOLDER = Path("pando-torch")
# Each of them reads all weights.
DEFAULT_BYTES = 48


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line.

    Args:
        arguments: The arguments; None: those of the process.

    Returns:
        The options by name.
    """
    return parse_gpt(
        gpt_parser(
            "python -m pando_demo.torch_gpt",
            __doc__,
            folder=DEFAULT_FOLDER,
            memory=4 << 30,
            memory_help="of the whole process (4GiB)",
            steps=10,
            text_bytes=DEFAULT_BYTES,
        ),
        arguments,
    )


def _tensors(batch: Batch) -> list[torch.Tensor]:
    """A batch as the model's arguments."""
    parts = (batch.tokens, batch.labels)
    return [torch.from_numpy(part.reshape(-1, part.shape[-1]).astype(np.int64)) for part in parts]


class TorchGptRun:
    """A model with what trains it.

    Args:
        shape: The sizes of the model.
        batches: The text.
        options: What `parse_arguments` gave.
    """

    def __init__(self, shape: GptShape, batches: TextBatches, options: argparse.Namespace) -> None:
        self._options = options
        self._batches = batches
        self.steps_done = 0
        self.losses: list[float] = []
        self.seconds: list[float] = []
        print("drawing weights", flush=True)
        self._model = make_model(shape, options.folder, options.seed)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=0.0, weight_decay=0.01)
        self._warmup_steps = options.warmup_steps or default_warmup_steps(shape)
        self._trainer = poptorch.trainingModel(
            NextToken(self._model), self._training_options(), self._optimizer
        )
        self._trainer.compile(*_tensors(batches.validation()))

    def _fitting_options(self) -> poptorch.Options:
        options = poptorch.Options().randomSeed(self._options.seed)
        return options.fit_in(self._options.memory, self._options.folder)

    def _training_options(self) -> poptorch.Options:
        options = self._fitting_options().outputMode(poptorch.OutputMode.Sum)
        options.Training.gradientAccumulation(self._options.micro_batches)
        return options

    @property
    def plan(self) -> poptorch.FitPlan:
        """What was planned for the memory."""
        return self._trainer.fitPlan()

    def _set_rate(self) -> None:
        """The rate rises linearly, then stays."""
        share = min(1.0, (self.steps_done + 1) / self._warmup_steps)
        for group in self._optimizer.param_groups:
            group["lr"] = self._options.learning_rate * share
        self._trainer.setOptimizer(self._optimizer)

    def step(self) -> float:
        """Make one update.

        Returns:
            The mean loss of its micro-batches, before it.
        """
        self._set_rate()
        start = time.perf_counter()
        loss = float(self._trainer(*_tensors(self._batches.next()))) / self._options.micro_batches
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss)
        self.steps_done += 1
        return loss

    def _bar(self, text: str) -> Any:
        total = self.plan.remote_bytes
        return tqdm(
            desc=text, total=total, unit="B", unit_scale=True, unit_divisor=1024, leave=False
        )

    def save(self) -> None:
        """Keep the state of now and remove that of before."""
        with self._bar(f"saving step {self.steps_done}") as bar:
            self._trainer.saveCheckpoint(
                checkpoint_folder(self._options.folder),
                step=self.steps_done,
                generators={"data": self._batches.generator},
                keep=1,
                progress=bar.update,
            )

    def resume(self) -> None:
        """Go on from the last saved state."""
        with self._bar("loading") as bar:
            loaded = self._trainer.loadCheckpoint(
                checkpoint_folder(self._options.folder),
                generators={"data": self._batches.generator},
                progress=bar.update,
            )
        self.steps_done = loaded.step
        tqdm.write(f"going on from step {loaded.step} in {loaded.path}")

    def write(self, text: TextOptions) -> list[str]:
        """Give the trainer up and write texts with the trained weights.

        Args:
            text: What is written.

        Returns:
            The texts with their prompt, as they can be shown.
        """
        self._trainer.destroy()
        self._model.train(False)
        scores = poptorch.inferenceModel(ScoresAt(self._model), self._fitting_options())
        generator = np.random.default_rng([text.seed, self.steps_done])
        with (
            stop_request("no more text; once more stops at once") as stop,
            tqdm(desc="writing", total=text.count, unit="B", leave=False) as bar,
        ):

            def choose(given: np.ndarray) -> np.ndarray:
                bar.update()
                return sample_tokens(given, generator, text.temperature, text.top_k)

            written = write(scores, text.prompt, text.texts, text.count, choose, stop)
        scores.destroy()
        return [readable(tokens) for tokens in written]


def train(run: TorchGptRun, options: argparse.Namespace, tokens: int) -> bool:
    """Make all steps and save.

    Args:
        run: What is trained.
        options: What `parse_arguments` gave.
        tokens: How many a step has.

    Returns:
        Whether the user stopped it.
    """
    told = "stopping after this step; once more stops at once, without saving"
    with stop_request(told) as stop, tqdm(total=options.steps, unit="step") as bar:
        for done in range(1, options.steps + 1):
            loss = run.step()
            bar.set_postfix_str(f"loss {loss:.4f}, {tokens / run.seconds[-1]:,.0f} tokens/s")
            bar.update()
            is_last = done == options.steps or stop()
            is_due = options.save_every is not None and done % options.save_every == 0
            if not options.no_save and (is_last or is_due):
                run.save()
            if is_last:
                break
        return stop()


def _summary(
    run: TorchGptRun, shape: GptShape, options: argparse.Namespace, tokens: int
) -> list[tuple[str, str]]:
    # The first step also waits for the first loads.
    seconds = float(np.mean(run.seconds[1:] or run.seconds))
    return [
        ("network", f"{shape.parameters:,} parameters, {shape.layers} layers of {shape.hidden}"),
        ("steps", f"{run.steps_done} of {tokens} tokens"),
        ("loss", f"{run.losses[0]:.4f} at first, {run.losses[-1]:.4f} at last"),
        ("time per step", f"{seconds:.2f} s, {tokens / seconds:,.1f} tokens/s"),
        ("memory limit", bytes_text(options.memory)),
        ("peak resident memory", bytes_text(peak_resident_bytes())),
    ]


def _run_size(shape: GptShape, text: TextOptions, options: argparse.Namespace) -> RunSize:
    training = GptOptions(
        micro_batch=options.batch // options.micro_batches,
        micro_batches=options.micro_batches,
        memory_bytes=options.memory,
        folder=options.folder,
    )
    saves = 0 if options.no_save else 1
    if saves and options.save_every:
        saves += (options.steps - 1) // options.save_every
    return RunSize(
        shape,
        training,
        options.steps,
        evaluations=0,
        saves=saves,
        resumes=options.resume,
        earlier_checkpoint=bool(checkpoints(checkpoint_folder(options.folder))),
        # Every byte computes all positions anew.
        texts=text.texts * (len(text.prompt) + text.count),
        passes=text.count,
        host_copies=1,
    )


def run_demo(options: argparse.Namespace) -> bool:
    """Train, save, write.

    Args:
        options: The arguments.

    Returns:
        Whether the user stopped it.

    Raises:
        ValueError: Disk or memory cannot hold the run.
    """
    shape = chosen_shape(options)[1]
    text = chosen_text(shape, options, DEFAULT_BYTES)
    sequences = options.batch // options.micro_batches
    batches = TextBatches(
        read_tokens(options.data), (options.micro_batches, sequences, shape.sequence), options.seed
    )
    size = _run_size(shape, text, options)
    check_disk(size)
    rates, available = measure_rates(size), available_bytes()
    show_facts(plan_facts(size, rates, min(options.memory, available), available))
    if options.plan:
        return False
    if resident_bytes() >= options.memory:
        raise ValueError(
            f"PyTorch and transformers alone take {bytes_text(resident_bytes())}; the limit is "
            f"{bytes_text(options.memory)}: give more (--memory)"
        )
    limit_private_memory(options.memory)
    run = TorchGptRun(shape, batches, options)
    show_facts([("plan", str(run.plan))])
    if options.resume:
        run.resume()
    stopped = train(run, options, size.tokens)
    show_facts(_summary(run, shape, options, size.tokens))
    if text.count and not stopped:
        show_texts(run.write(text))
        show_facts([("peak resident memory", bytes_text(peak_resident_bytes()))])
    if stopped and not options.no_save:
        print("stopped; --resume goes on")
    return stopped


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python -m pando_demo.torch_gpt`.

    Args:
        arguments: The arguments; None: those of the process.

    Returns:
        The exit code: 0, 1 for what cannot be done, 130 when stopped.
    """
    options = parse_arguments(arguments)
    try:
        return EXIT_INTERRUPTED if run_demo(options) else 0
    except KeyboardInterrupt:
        print("pando torch: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except MemoryError as error:
        print(
            f"pando torch: the process does not keep to --memory: {error}; give more, or make "
            "micro-batches smaller",
            file=sys.stderr,
        )
    except (OSError, ValueError, CheckpointError, poptorch.Error) as error:
        print(f"pando torch: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
