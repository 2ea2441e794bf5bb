"""The combined batch: its split among replicas, device iterations and accumulation steps.

A program runs `steps` micro-batches on each replica: device iterations times accumulation steps.
Streams of a session have the micro-batches first and the replicas second, each axis only where its
size is above 1; tensors of callers have the replicas first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._lower.dtypes import KNOWN_DTYPES, array_of, device_dtype, popxl_dtype
from poptorch._options_batching import check_input_groups
from poptorch.enums import CommGroupType, OutputMode
from poptorch.options import Options

_Array = np.ndarray[Any, Any]


def input_dtype(dtype: torch.dtype) -> torch.dtype:
    """Find the type that an input has in the program.

    Args:
        dtype: The type of the caller's tensor.

    Returns:
        int32 for int64, float32 for float64 and bfloat16, otherwise `dtype` itself.

    Raises:
        Error: Inputs cannot have this type.
    """
    if dtype is torch.bfloat16:
        return torch.float32
    popxl_dtype(dtype)
    return device_dtype(dtype)


# Inputs of these types are read where they lie.
_KEPT_DTYPES = frozenset(dtype for dtype in KNOWN_DTYPES if input_dtype(dtype) is dtype)


def check_is_dense(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that no stream can read.

    Args:
        name: What the error calls the input.
        tensor: The input.

    Raises:
        Error: The tensor is on another device, or is sparse.
    """
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        raise createPoptorchError(
            f"Input {name}: wanted a dense tensor on the CPU; given layout {tensor.layout} on "
            f"{tensor.device}"
        )


class HostArrays:
    """Makes arrays for streams of what callers give, and warns once of what that costs."""

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def array(self, name: str, tensor: torch.Tensor) -> _Array:
        """Make the array of one input.

        Args:
            name: What errors and warnings call the input.
            tensor: A tensor of any shape on the CPU.

        Returns:
            An array of the type of `input_dtype`: a view of the tensor's memory where the tensor
            has that type and is contiguous, otherwise a copy.

        Raises:
            Error: The tensor is on another device, is sparse, has an unsupported type, or has
                integers outside the range of int32.
        """
        check_is_dense(name, tensor)
        if tensor.requires_grad:
            self._note(
                "grad",
                f"Input {name} has requires_grad=True: it is detached, no gradient flows to it.",
            )
            tensor = tensor.detach()
        if not tensor.is_contiguous():
            self._note(
                "contiguous",
                f"Input {name} is not contiguous: it is copied on each call. Call .contiguous() "
                "once before, if it stays the same.",
            )
            tensor = tensor.contiguous()
        if tensor.dtype is torch.int64:
            return _narrowed(name, tensor.numpy())
        if tensor.dtype not in _KEPT_DTYPES:
            tensor = tensor.to(input_dtype(tensor.dtype))
        array: _Array = tensor.numpy()
        return array

    def _note(self, kind: str, message: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            logger.warning(message)


def _narrowed(name: str, array: _Array) -> _Array:
    narrow = array.astype(np.int32)
    if (narrow != array).any():
        limits = np.iinfo(np.int32)
        raise createPoptorchError(
            f"Input {name}: wanted integers between {limits.min} and {limits.max}, because the "
            f"device has int32; given values between {array.min()} and {array.max()}"
        )
    return narrow


@dataclass(frozen=True)
class BatchSizes:
    """The numbers by which a combined batch is split; `gradient_accumulation` 1 in inference."""

    device_iterations: int = 1
    replication_factor: int = 1
    gradient_accumulation: int = 1
    input_group_size: int = 1
    input_group_type: CommGroupType = CommGroupType.Consecutive

    @staticmethod
    def of(options: Options) -> BatchSizes:
        """Read the numbers of options.

        Args:
            options: The options of a model or of a data loader.

        Returns:
            Their numbers.

        Raises:
            ValueError: The groups of replicas with the same inputs are not equally large.
        """
        check_input_groups(options.input_group_size, options.replication_factor)
        return BatchSizes(
            options.device_iterations,
            options.replication_factor,
            options.Training.gradient_accumulation,
            options.input_group_size,
            options.input_cgt,
        )

    @cached_property
    def is_single(self) -> bool:
        """Find out whether a combined batch is one micro-batch of one replica.

        Returns:
            Whether it is.
        """
        return self.steps == 1 and not self._replicated

    @property
    def _replicated(self) -> bool:
        return self.replication_factor > 1

    @property
    def groups(self) -> int:
        """How many groups of replicas get data of their own."""
        return self.replication_factor // self.input_group_size

    @property
    def steps(self) -> int:
        """How many micro-batches each replica runs in one call."""
        return self.device_iterations * self.gradient_accumulation

    @property
    def extra(self) -> int:
        """How many micro-batches are in a combined batch."""
        return self.steps * self.groups

    def check(self, shape: Sequence[int]) -> None:
        """Refuse a combined batch that cannot be split.

        Args:
            shape: The shape of an input.

        Raises:
            AssertionError: The first dimension, 1 for (), is no multiple of `extra`.
        """
        size = shape[0] if shape else 1
        if size % self.extra == 0:
            return
        raise AssertionError(
            f"Invalid batch dimension: In the input {torch.Size(shape)}, the batch dimension "
            f"({size}) must be a multiple of Options.deviceIterations({self.device_iterations}) * "
            f"(Options.replicationFactor({self.replication_factor}) / "
            f"Options.inputReplicaGrouping.input_group_size({self.input_group_size})) * "
            f"Options.Training.gradientAccumulation({self.gradient_accumulation}) = {self.extra} "
            "because each call runs that many micro-batches, equally large."
        )

    def micro_batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give what the module sees first.

        Args:
            tensor: A combined batch, (n, ...) or ().

        Returns:
            The first n // `extra` rows, detached: a view, but a copy in float32 for bfloat16.

        Raises:
            AssertionError: n is no multiple of `extra`.
            Error: Inputs cannot have the type of the tensor.
        """
        self.check(tensor.shape)
        input_dtype(tensor.dtype)
        detached = tensor.detach()
        if tensor.dtype is torch.bfloat16:
            detached = detached.float()
        return detached.narrow(0, 0, len(tensor) // self.extra) if tensor.ndim else detached

    def split(self, array: _Array) -> _Array:
        """Split a combined batch for the stream that takes it.

        Args:
            array: A contiguous combined batch, (n, ...) or (), of which `check` approved.

        Returns:
            The same rows, (steps, replicas, n // extra, ...): a view, unless several replicas but
            not all share a group, which takes a copy of the batch for each.
        """
        if self.is_single:
            return array
        if not array.ndim:
            return np.broadcast_to(array, self.replication_factor) if self._replicated else array
        rows = (len(array) // self.extra, *array.shape[1:])
        steps, groups, members = self.steps, self.groups, self.input_group_size
        if not self._replicated:
            return array.reshape((steps, *rows))
        by_step = array.reshape((groups, steps, *rows)).swapaxes(0, 1)
        if members > 1:
            axis = 1 if self.input_group_type == CommGroupType.Orthogonal else 2
            shape = list(by_step.shape)
            shape.insert(axis, members)
            shared = np.broadcast_to(np.expand_dims(by_step, axis), shape)
            by_step = shared.reshape((steps, self.replication_factor, *rows))
        return by_step if steps > 1 else by_step[0]

    def of_groups(self, results: torch.Tensor) -> torch.Tensor:
        """Give the rows of one replica of each input group.

        Args:
            results: The rows of all replicas, (replicas * n, ...), or ().

        Returns:
            (groups * n, ...), in the order of a combined batch.
        """
        if self.input_group_size == 1 or not results.ndim:
            return results
        rows = results.view(self.replication_factor, -1, *results.shape[1:])
        if self.input_group_type == CommGroupType.Orthogonal:
            return rows[: self.groups].flatten(0, 1)
        return rows[:: self.input_group_size].flatten(0, 1)


@dataclass(frozen=True)
class OutputSizes:
    """Which results of a run are returned, and in which shape; `mode` is not `Default`."""

    batches: BatchSizes
    mode: OutputMode
    period: int = 1

    @property
    def each(self) -> int:
        """How many results each replica gives in one call."""
        if self.mode == OutputMode.All:
            return self.batches.steps
        if self.mode == OutputMode.EveryN:
            return self.batches.steps // self.period
        return 1

    @property
    def count(self) -> int:
        """How many results are returned of one call."""
        return self.batches.replication_factor * self.each

    def returned_steps(self) -> list[int]:
        """Say which micro-batches' results are stored.

        Returns:
            Their numbers from 0 on, ascending. For `Sum` the last, after which the sum is whole.
        """
        steps = self.batches.steps
        period = self.period if self.mode == OutputMode.EveryN else 1
        stored = range(period - 1, steps, period)
        keeps_some = self.mode in (OutputMode.All, OutputMode.EveryN)
        return list(stored) if keeps_some else [steps - 1]

    def shape(self, traced: Sequence[int]) -> tuple[int, ...]:
        """Give the shape of what is returned.

        Args:
            traced: The shape of the result of one micro-batch.

        Returns:
            The same shape where one result is returned; otherwise the first dimension is `count`
            times as large, and () becomes (count,).
        """
        if self.count == 1:
            return tuple(traced)
        return (self.count * (traced[0] if traced else 1), *traced[1:])

    def of_updates(self, stored: torch.Tensor, traced: Sequence[int], count: int) -> torch.Tensor:
        """Give what is returned of a value that changes with each update only.

        Args:
            stored: What a run stored, as `All` returns it; behind the first `count` of each replica
                nothing was stored.
            traced: The shape of the value.
            count: How many times it was stored in a run, each time for as many micro-batches.

        Returns:
            A tensor of the shape `shape(traced)`.
        """
        steps = self.batches.steps
        by_replica = stored.reshape(self.batches.replication_factor, steps, *traced)[:, :count]
        by_step = by_replica.repeat_interleave(steps // count, dim=1)
        if self.mode == OutputMode.Sum:
            chosen = by_step.sum(1, dtype=stored.dtype)
        else:
            chosen = by_step[:, self.returned_steps()]
        return chosen.reshape(self.shape(traced))

    def make(self, traced: Sequence[int], dtype: torch.dtype, transfers: int) -> Result:
        """Make the memory of one output.

        Args:
            traced: The shape of the result of one micro-batch.
            dtype: The type of the result on the device.
            transfers: How many transfers arrays of the session have. The program stores `each`
                times, into the first ones; for `EveryN` it stores every time.

        Returns:
            Uninitialised memory, for one call.
        """
        replicas = self.batches.replication_factor
        if transfers == replicas == 1:
            # The usual call, kept short: the array is the tensor's.
            tensor = torch.empty(traced, dtype=dtype)
            return Result(tensor, array_of(tensor))
        each, stored = self.each, None
        tensor = torch.empty(self.shape(traced), dtype=dtype)
        if transfers == each:
            by_replica = array_of(tensor).reshape((replicas, each, *traced))
        else:
            # Large memory that nothing is stored to is never touched, so it costs nothing.
            spare = torch.empty((replicas, transfers, *traced), dtype=dtype)
            start = self.period - 1 if self.mode == OutputMode.EveryN else 0
            step = self.period if self.mode == OutputMode.EveryN else 1
            stored = spare[:, start::step][:, :each]
            by_replica = array_of(spare)
        full = by_replica.swapaxes(0, 1)
        full = full if replicas > 1 else full[:, 0]
        return Result(tensor, full if transfers > 1 else full[0, ...], stored)


class Result:
    """The memory of one output of one call.

    Args:
        tensor: What the caller of the model gets.
        array: What the session fills.
        stored: What of it is returned; None: `array` is the memory of `tensor`.
    """

    __slots__ = ("_stored", "_tensor", "array")

    def __init__(
        self, tensor: torch.Tensor, array: _Array, stored: torch.Tensor | None = None
    ) -> None:
        self._tensor = tensor
        self._stored = stored
        self.array = array

    def tensor(self) -> torch.Tensor:
        """Give what the caller of the model gets.

        Returns:
            The tensor of shape `OutputSizes.shape`, which shares no memory with other results.
        """
        if self._stored is not None:
            self._tensor.view(self._stored.shape).copy_(self._stored)
        return self._tensor
