"""What a run of the decoder will take of disk, memory and time, before it starts."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import popxl
from pando.disk_bandwidth import Bandwidth, disk_bandwidth
from pando.plots import bytes_text
from pando.session_info import open_session
from pando_demo.gpt_network import GptShape
from pando_demo.gpt_training import GptOptions
from popxl import ops

# Bytes of a number, and of it with the two moments of Adam.
_NUMBER, _NUMBER_WITH_MOMENTS = 4, 12
# How much is written and read to see how fast the disk is.
_LEAST_PROBE, _MOST_PROBE = 1 << 20, 256 << 20
_RATE_SECONDS = 0.2
# To draw one weight.
_DRAWING_SECONDS = 1e-8


@dataclass(frozen=True)
class RunSize:
    """The work of one run, counted.

    Attributes:
        shape: Of the network.
        options: How it is trained.
        steps: Updates to make.
        evaluations: Passes over the held-out text.
        saves: Checkpoints to write.
        resumes: Whether a checkpoint is read at the beginning.
        earlier_checkpoint: Whether the folder has one already, which the first new one replaces.
        texts: Those that are written at the end, at once.
        passes: Runs of the writer, each for one byte of every text.
        host_copies: Copies of the weights in files beside those of the session.
    """

    shape: GptShape
    options: GptOptions
    steps: int
    evaluations: int = 2
    saves: int = 1
    resumes: bool = False
    earlier_checkpoint: bool = False
    texts: int = 0
    passes: int = 0
    host_copies: int = 0

    @property
    def tokens(self) -> int:
        """How many a step has."""
        return self.options.micro_batches * self.options.micro_batch * self.shape.sequence

    @property
    def _layer_input_bytes(self) -> int:
        """The inputs of all layers and the head, of all tokens of a step."""
        return _NUMBER * self.tokens * self.shape.hidden * (self.shape.layers + 1)

    @property
    def row_bytes(self) -> int:
        """All remote buffers: weights, moments, inputs of layers and their gradients."""
        return _NUMBER_WITH_MOMENTS * self.shape.parameters + 2 * self._layer_input_bytes

    @property
    def new_checkpoints(self) -> int:
        """How many more there are at the worst moment: one is whole before the last one goes."""
        return min(self.saves, 1 if self.earlier_checkpoint else 2)

    @property
    def disk_bytes(self) -> int:
        """The most that the run adds to its folder: while it saves, or while it writes texts."""
        rows = self.row_bytes if self.options.tier == "file" else 0
        saving = self.new_checkpoints * self.row_bytes
        writing = self.kept_checkpoints * self.row_bytes + self.writer_disk_bytes
        return rows + self.host_bytes + max(saving, writing)

    @property
    def host_bytes(self) -> int:
        """The weights that the host has in files."""
        return self.host_copies * _NUMBER * self.shape.parameters

    @property
    def kept_checkpoints(self) -> int:
        """How many more there are than before, once all are saved."""
        return 0 if self.earlier_checkpoint else min(self.saves, 1)

    @property
    def writer_disk_bytes(self) -> int:
        """The weights that texts are written with, a copy."""
        is_file = self.options.tier == "file" and self.passes > 0
        return _NUMBER * self.shape.parameters if is_file else 0

    @property
    def _head_flops(self) -> int:
        return 2 * self.tokens * self.shape.hidden * self.shape.vocabulary

    @property
    def _layer_flops(self) -> int:
        """Counts 12 hidden^2 weights a layer, and the attention to the half that is not masked."""
        hidden, sequence = self.shape.hidden, self.shape.sequence
        return self.tokens * self.shape.layers * (24 * hidden + 2 * sequence) * hidden

    @property
    def step_flops(self) -> int:
        """Layers: forward, again for the backward pass, and two products for each of forward's."""
        return 4 * self._layer_flops + 3 * self._head_flops

    @property
    def evaluation_flops(self) -> int:
        """Forward only."""
        return self._layer_flops + self._head_flops

    @property
    def pass_flops(self) -> int:
        """One byte of every text."""
        hidden, shape = self.shape.hidden, self.shape
        return 2 * self.texts * hidden * (12 * hidden * shape.layers + shape.vocabulary)

    @property
    def step_loaded_bytes(self) -> int:
        """Weights for the forward pass, but for the head's, and all with moments for the backward
        pass; inputs of layers twice, that of the head once, gradients of all inputs once."""
        shape = self.shape
        head = (shape.vocabulary + 2) * shape.hidden + shape.vocabulary
        forward = _NUMBER * (shape.parameters - head)
        inputs = (3 * shape.layers + 2) * (self._layer_input_bytes // (shape.layers + 1))
        return forward + _NUMBER_WITH_MOMENTS * shape.parameters + inputs

    @property
    def step_stored_bytes(self) -> int:
        """Weights and moments, inputs of layers and gradients."""
        return self.row_bytes


@dataclass(frozen=True)
class MachineRates:
    """How fast a machine is.

    Attributes:
        flops: Floating point operations per second.
        disk: Bandwidth of the disk.
    """

    flops: float
    disk: Bandwidth


def matmul_rate(tokens: int, hidden: int, threads: int) -> float:
    """Measures products of the size of a layer's largest for a fraction of a second.

    Args:
        tokens: Rows of the left operand.
        hidden: Its columns; the right operand is (hidden, 4 * hidden), both float32.
        threads: How many compute; 0: every core.

    Returns:
        Floating point operations per second.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.full((tokens, hidden), 0.5, np.float32), name="x")
        weight = popxl.variable(np.full((hidden, 4 * hidden), 0.5, np.float32), name="weight")
        ops.host_store(popxl.d2h_stream((), popxl.float32, name="sum"), ops.sum(x @ weight))
    session = open_session(ir, threads)
    with session:
        session.run()  # packs the weight and fills caches
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < _RATE_SECONDS:
            session.run()
            count += 1
        seconds = time.perf_counter() - start
    return 8 * tokens * hidden * hidden * count / seconds


def measure_rates(size: RunSize) -> MachineRates:
    """How fast this machine is now, in less than a second.

    Args:
        size: The run; the disk is that of its folder, which is made.

    Returns:
        What was measured; an infinite rate for the disk when the run does not need it.

    Raises:
        OSError: The folder cannot be made or written to.
    """
    options = size.options
    flops = matmul_rate(
        options.micro_batch * size.shape.sequence, size.shape.hidden, options.threads
    )
    if size.disk_bytes == 0 and not size.resumes:
        return MachineRates(flops, Bandwidth(float("inf"), float("inf")))
    Path(options.folder).mkdir(parents=True, exist_ok=True)
    probe = min(max(size.row_bytes, _LEAST_PROBE), _MOST_PROBE)
    return MachineRates(flops, disk_bandwidth(Path(options.folder), probe))


@dataclass(frozen=True)
class TimeEstimate:
    """How long a run takes, in seconds.

    Attributes:
        step: One step.
        others: All else but texts: weights, evaluations, checkpoints.
        texts: Writing texts.
    """

    step: float
    others: float
    texts: float = 0.0

    @classmethod
    def of(cls, size: RunSize, rates: MachineRates) -> TimeEstimate:
        """A step takes the longer of its computation and its transfers, which overlap.

        Args:
            size: The run.
            rates: How fast the machine is.

        Returns:
            The estimate.
        """
        disk = rates.disk
        weights = _NUMBER * size.shape.parameters
        step, evaluation = size.step_flops / rates.flops, size.evaluation_flops / rates.flops
        if size.options.tier == "file":
            loading = size.step_loaded_bytes / disk.reading
            step = max(step, loading + size.step_stored_bytes / disk.writing)
            evaluation = max(evaluation, weights / disk.reading)
        texts = size.passes * size.pass_flops / rates.flops
        if size.writer_disk_bytes:
            once = weights / disk.reading
            texts = max(texts, size.passes * once) + once + weights / disk.writing
        copying = size.row_bytes * (1 / disk.reading + 1 / disk.writing)
        if size.resumes:  # read once for the checksums and once for the rows
            beginning = copying + size.row_bytes / disk.reading
        else:
            beginning = _DRAWING_SECONDS * size.shape.parameters + weights / disk.writing
        others = beginning + size.evaluations * evaluation + size.saves * copying
        return cls(step, others, texts)


def free_disk_bytes(folder: Path) -> int:
    """What can still be written to a folder, which need not exist yet.

    Args:
        folder: The nearest folder above it that exists says which disk it will be on.

    Returns:
        Bytes free for this user.
    """
    existing = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()
    )
    return shutil.disk_usage(existing).free


def check_disk(size: RunSize) -> None:
    """Refuses a run that the disk cannot hold.

    Args:
        size: The run; its folder need not exist.

    Raises:
        ValueError: Less is free than the run will write; the message says for what.
    """
    free = free_disk_bytes(Path(size.options.folder))
    if size.disk_bytes <= free:
        return
    raise ValueError(
        f"the run needs {bytes_text(size.disk_bytes)} below {size.options.folder}: "
        f"{_disk_parts(size)}; {bytes_text(free)} are free. Make room, name another disk with "
        "--folder, or train a smaller network (--params)"
        + (" or without checkpoints (--no-save)" if size.saves else "")
        + (" or texts (--write 0)" if size.writer_disk_bytes else "")
    )


def check_memory(need: int, available: int) -> None:
    """Refuses a run that the memory of the machine cannot hold.

    Args:
        need: Bytes that the process will have.
        available: Bytes that it can have.

    Raises:
        ValueError: It needs more.
    """
    if need > available:
        raise ValueError(
            f"the run needs {bytes_text(need)} of memory; {bytes_text(available)} are available. "
            "Keep the state in files (--tier file), give a limit (--memory), or make the batch or "
            "the network smaller"
        )


def _disk_parts(size: RunSize) -> str:
    parts = []
    if size.options.tier == "file":
        parts.append(f"{bytes_text(size.row_bytes)} of weights, moments and layer inputs")
    if size.host_copies:
        parts.append(f"{bytes_text(size.host_bytes)} of weights of the module")
    # What the most is needed for: a new checkpoint beside an old one, or texts beside the new one.
    extra = (size.new_checkpoints - size.kept_checkpoints) * size.row_bytes
    writes = size.writer_disk_bytes > extra
    copies = size.kept_checkpoints if writes else size.new_checkpoints
    if copies:
        one = f"{bytes_text(size.row_bytes)} of a checkpoint"
        parts.append(one if copies == 1 else f"twice {one}, new beside old")
    if writes:
        parts.append(f"{bytes_text(size.writer_disk_bytes)} of weights to write texts with")
    return " and ".join(parts) or "nothing"


def duration_text(seconds: float) -> str:
    """A time for people.

    Args:
        seconds: From zero on.

    Returns:
        Such as "0.2 s", "45 s", "12 min" or "3 h 20 min".
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def plan_facts(
    size: RunSize, rates: MachineRates, memory_bytes: int, available_bytes: int
) -> list[tuple[str, str]]:
    """What to tell before the run starts.

    Args:
        size: The run.
        rates: How fast the machine is.
        memory_bytes: What the process will have, with everything.
        available_bytes: What it can have.

    Returns:
        Names and texts: disk, memory, time.
    """
    estimate = TimeEstimate.of(size, rates)
    total = size.steps * estimate.step + estimate.others + estimate.texts
    moved = size.step_loaded_bytes + size.step_stored_bytes
    work = f"{size.step_flops / 1e12:.3g} TFLOP at {rates.flops / 1e9:.3g} GFLOP/s"
    if size.options.tier == "file":
        work += (
            f", {bytes_text(moved)} loaded at {bytes_text(rates.disk.reading)}/s and stored at "
            f"{bytes_text(rates.disk.writing)}/s"
        )
    free = free_disk_bytes(Path(size.options.folder))
    limit = size.options.memory_bytes
    return [
        (
            "disk",
            f"{bytes_text(size.disk_bytes)} below {size.options.folder} ({_disk_parts(size)}); "
            f"{bytes_text(free)} are free",
        ),
        (
            "memory",
            f"{bytes_text(memory_bytes)}; "
            + (f"the limit is {bytes_text(limit)}, " if limit else "")
            + f"{bytes_text(available_bytes)} are available",
        ),
        (
            "time",
            f"about {duration_text(total)}: {size.steps} steps of {duration_text(estimate.step)} "
            f"({work}, as measured now) and {duration_text(estimate.others)} for weights, "
            "validation and checkpoints"
            + (f", {duration_text(estimate.texts)} for texts" if size.passes else ""),
        ),
    ]
