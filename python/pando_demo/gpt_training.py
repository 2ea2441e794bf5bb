"""A session that trains the phased decoder, with its state in remote buffers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import popxl
from pando import checkpoint
from pando.memory_budget import MemoryBudget
from pando.session_info import memory_plan
from pando.settings import use_session_settings
from pando.text_data import Batch, TextBatches
from pando_demo.gpt_network import GptShape, initial_values
from pando_demo.gpt_program import GptProgram, adam_scalars, phased_program
from popxl_addons.remote_rows import RemoteRows

# Layers times hidden size.
_WIDTHS_PER_WARMUP_STEP = 205


@dataclass(frozen=True)
class GptOptions:
    """How to train; the sizes are in GptShape.

    Attributes:
        micro_batch: Sequences in a micro-batch.
        micro_batches: Micro-batches in an update.
        learning_rate: After the warm-up.
        warmup_steps: Updates until that rate; None means `default_warmup_steps`.
        seed: The seed of the weights.
        memory_bytes: The memory of the whole process; 0 means no limit.
        tier: Where state is: "file" or "ram".
        folder: For the files and checkpoints.
        threads: The threads of the session; 0 means one for every core.
        profile: Whether the time of every op is recorded.
        io_mode: The mode of the loops over micro-batches, see `popxl_addons.batch_serialise`.
        io_threads: Threads for files.
    """

    micro_batch: int = 4
    micro_batches: int = 2
    learning_rate: float = 3e-4
    warmup_steps: int | None = None
    seed: int = 42
    memory_bytes: int = 0
    tier: str = "file"
    folder: Path = Path("pando-gpt")
    threads: int = 0
    profile: bool = False
    io_mode: str = "io_overlapped"
    io_threads: int = 2


def default_warmup_steps(shape: GptShape) -> int:
    """Updates until the whole learning rate: 20 for 25M, 383 for 1.5B.

    Adam's first updates move every weight by nearly the rate, in a direction that its inputs agree
    on, so they change the residual stream in proportion to layers and inputs. With a warm-up that
    does not grow with both, the loss of large networks rises again after the first step.

    Args:
        shape: The sizes of the decoder.

    Returns:
        Their number.
    """
    return math.ceil(shape.layers * shape.hidden / _WIDTHS_PER_WARMUP_STEP)


def checkpoint_folder(folder: Path) -> Path:
    """Where the checkpoints of a run are.

    Args:
        folder: That of all its state.

    Returns:
        A folder in it.
    """
    return Path(folder) / "checkpoints"


@dataclass(frozen=True)
class IoCounts:
    """Remote transfers up to a moment, or between two.

    Attributes:
        bytes_loaded: To the device.
        bytes_stored: To the files.
        busy_seconds: While at least one transfer was going on.
        waiting_seconds: The program's, for transfers.
    """

    bytes_loaded: int = 0
    bytes_stored: int = 0
    busy_seconds: float = 0.0
    waiting_seconds: float = 0.0

    def __add__(self, other: IoCounts) -> IoCounts:
        return IoCounts(
            self.bytes_loaded + other.bytes_loaded,
            self.bytes_stored + other.bytes_stored,
            self.busy_seconds + other.busy_seconds,
            self.waiting_seconds + other.waiting_seconds,
        )

    def __sub__(self, earlier: IoCounts) -> IoCounts:
        return IoCounts(
            self.bytes_loaded - earlier.bytes_loaded,
            self.bytes_stored - earlier.bytes_stored,
            self.busy_seconds - earlier.busy_seconds,
            self.waiting_seconds - earlier.waiting_seconds,
        )

    @property
    def hidden_share(self) -> float:
        """The part of the I/O time that the program did not wait for."""
        if self.busy_seconds <= 0:
            return 1.0
        return max(0.0, 1 - self.waiting_seconds / self.busy_seconds)


def io_counts(session: popxl.Session) -> IoCounts:
    """Counts the remote transfers of a session.

    Args:
        session: The session, entered.

    Returns:
        Those since it was entered.
    """
    report: Any = session._pb_session.program.io_report
    return IoCounts(
        int(report.bytes_loaded),
        int(report.bytes_stored),
        float(report.busy_seconds),
        float(report.waiting_seconds),
    )


def _weight_key(key: str) -> str:
    """The key of a buffer for one of `variable_shapes`."""
    part, _, name = key.partition(".")
    return f"{part}.fwd.{name}"


def _phase_bytes(shape: GptShape) -> int:
    """Weights and moments of one layer."""
    return 3 * 4 * shape.layer_parameters


class GptTrainer:
    """Trains a decoder with `step`; use it inside `with`. All state is in remote buffers.

    Args:
        shape: The sizes of the decoder.
        options: How to train.

    Attributes:
        steps_done: Updates of the state.
        program: What runs.
        session: Its session.

    Raises:
        OutOfMemoryException: A phase does not fit the memory limit.
    """

    def __init__(self, shape: GptShape, options: GptOptions) -> None:
        self.shape = shape
        self.options = options
        self.steps_done = 0
        given = options.warmup_steps
        self.warmup_steps = default_warmup_steps(shape) if given is None else given
        self.program: GptProgram = phased_program(
            shape, options.micro_batch, options.micro_batches, options.io_mode
        )
        self.budget = MemoryBudget.of(_phase_bytes(shape), options.memory_bytes)
        with use_session_settings(
            num_threads=options.threads,
            profile=options.profile,
            memory_limit_bytes=self.budget.device_bytes,
            remote_tier=options.tier,
            remote_folder=os.fspath(options.folder),
            remote_staging_bytes=self.budget.staging_bytes,
            remote_prefetch_bytes=self.budget.prefetch_bytes,
            remote_io_threads=options.io_threads,
        ):
            self.session = popxl.Session(self.program.ir, "cpu")
        self._rows = RemoteRows(self.session, self.program.buffers)

    def __enter__(self) -> GptTrainer:
        self.session.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.session.__exit__(kind, value, traceback)

    @property
    def sequences(self) -> tuple[int, int, int]:
        """Micro-batches, sequences in each, their length."""
        return (self.options.micro_batches, self.options.micro_batch, self.shape.sequence)

    def process_bytes(self) -> int:
        """What the process will have in memory while it trains.

        Returns:
            Bytes: what it has now, device memory as planned, stores under way, buffers of threads
            and, without files, the remote buffers.
        """
        planned = memory_plan(self.session).peak_bytes
        is_file = self.options.tier == "file"
        state = self.budget.staging_bytes if is_file else self.remote_bytes()
        return self.budget.process_bytes + planned + state

    def remote_bytes(self) -> int:
        """All remote buffers together, wherever they are.

        Returns:
            Bytes.
        """
        return self._rows.total_bytes

    @property
    def tokens_per_step(self) -> int:
        """How many tokens an update learns from."""
        return math.prod(self.sequences)

    # State.

    def write_row(self, key: str, row: int, value: np.ndarray) -> None:
        """Writes one row of a remote buffer.

        Args:
            key: As in `GptProgram.buffers`.
            row: The layer.
            value: float32 of the row's shape.
        """
        self._rows.write(key, row, value)

    def read_row(self, key: str, row: int) -> np.ndarray:
        """Reads one row of a remote buffer.

        Args:
            key: As in `GptProgram.buffers`.
            row: The layer.

        Returns:
            A new array.
        """
        return self._rows.read(key, row)

    def read_weight(self, key: str, row: int) -> np.ndarray:
        """Reads a weight as it is after the last step.

        Args:
            key: As in `variable_shapes`.
            row: The layer.

        Returns:
            A new array.
        """
        return self.read_row(_weight_key(key), row)

    def initialise(self, progress: Callable[[int], object] | None = None) -> None:
        """Draws the weights row by row; the moments are zero.

        Args:
            progress: Called with the number of weights of each row that has been written.
        """
        for key, row, value in initial_values(self.shape, self.options.seed):
            self.write_row(_weight_key(key), row, value)
            if progress:
                progress(value.size)

    # Steps.

    def _run(self, batch: Batch, train: bool, scalars: tuple[float, float]) -> float:
        streams = self.program.streams
        axes = self.session._extra_input_dims

        def repeated(value: Any, kind: Any) -> np.ndarray:
            return np.full(axes, value, kind)

        tokens = batch.tokens.reshape(*axes, *batch.tokens.shape[1:])
        losses = self.session.run(
            {
                streams.tokens: tokens,
                streams.tokens_again: tokens,
                streams.labels: batch.labels.reshape(*axes, *batch.labels.shape[1:]),
                streams.train: repeated(train, np.bool_),
                streams.step_size: repeated(scalars[0], np.float32),
                streams.epsilon: repeated(scalars[1], np.float32),
            }
        )[streams.loss]
        return float(np.mean(losses, dtype=np.float64))

    def rate(self, step: int) -> float:
        """The learning rate of an update: it rises linearly, then stays.

        Args:
            step: The update, from 1.

        Returns:
            The rate.
        """
        return self.options.learning_rate * min(1.0, step / max(self.warmup_steps, 1))

    def step(self, batch: Batch) -> float:
        """Makes one update.

        Args:
            batch: What is learnt from.

        Returns:
            The loss before it.
        """
        number = self.steps_done + 1
        loss = self._run(batch, True, adam_scalars(number, self.rate(number)))
        self.steps_done = number
        return loss

    def evaluate(self, batch: Batch) -> float:
        """The loss; nothing changes.

        Args:
            batch: What it is computed of.

        Returns:
            The mean over all tokens.
        """
        return self._run(batch, False, (0.0, 0.0))

    def io(self) -> IoCounts:
        """Remote transfers since the session was entered.

        Returns:
            Their bytes and times.
        """
        return io_counts(self.session)

    # Checkpoints.

    def _facts(self) -> dict[str, Any]:
        """What must be the same for training to go on with the same bits."""
        options = self.options
        return {
            "micro_batch": options.micro_batch,
            "micro_batches": options.micro_batches,
            "learning_rate": options.learning_rate,
            "warmup_steps": self.warmup_steps,
        }

    def save(
        self, batches: TextBatches, progress: Callable[[int], object] | None = None
    ) -> checkpoint.Checkpoint:
        """Keeps the state of now and removes that of before.

        Args:
            batches: Whose place in the text belongs to the state.
            progress: Called with the bytes of each row that has been written.

        Returns:
            What was saved.
        """
        return checkpoint.save(
            self.session,
            checkpoint_folder(self.options.folder),
            step=self.steps_done,
            extra=self._facts(),
            generators={"data": batches.generator},
            keep=1,
            progress=progress,
        )

    def resume(
        self, batches: TextBatches, progress: Callable[[int], object] | None = None
    ) -> checkpoint.Checkpoint:
        """Goes on from the last saved state.

        Args:
            batches: Goes on where it was in the text.
            progress: Called with the bytes of each row that has been read.

        Returns:
            What was loaded.

        Raises:
            CheckpointError: There is none, or it is damaged.
            ValueError: It was trained in another way.
        """
        loaded = checkpoint.load(
            self.session,
            checkpoint_folder(self.options.folder),
            generators={"data": batches.generator},
            progress=progress,
        )
        if loaded.extra != self._facts():
            raise ValueError(
                f"{loaded.path} was trained with {loaded.extra}; asked for {self._facts()}"
            )
        self.steps_done = loaded.step
        return loaded
