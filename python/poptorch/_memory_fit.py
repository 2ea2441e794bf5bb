"""How a model is fitted into memory: whole, or in phases; and what that takes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import popxl
from pando.file_arrays import release_all_pages
from pando.memory_budget import SPARE_BYTES, MemoryBudget
from pando.plots import bytes_text
from pando.process_memory import claimed_bytes
from pando.session_info import memory_plan
from poptorch._impl import createPoptorchError
from poptorch._lower.program import Program
from poptorch._options_memory import MemoryFit
from popxl_addons.remote_rows import RemoteRows


@dataclass(frozen=True)
class FitPlan:
    """What was planned for a model that was asked to fit in memory.

    Attributes:
        memory_bytes: What the process may have.
        process_bytes: The process without what follows, when the model was compiled.
        device_bytes: What all replicas of the program hold at its peak, loads that come early
            included.
        staging_bytes: Stores under way.
        remote_bytes: Weights, state of the optimizer and what goes from phase to phase, in files.
        phases: How many phases there are; 1: the program is whole in memory.
        graphs: How many different graphs their forward passes are.
    """

    memory_bytes: int
    process_bytes: int
    device_bytes: int
    staging_bytes: int
    remote_bytes: int
    phases: int
    graphs: int

    @property
    def total_bytes(self) -> int:
        """What the process will have at most."""
        return self.process_bytes + self.device_bytes + self.staging_bytes

    def __str__(self) -> str:
        total, limit = bytes_text(self.total_bytes), bytes_text(self.memory_bytes)
        parts = (
            f"{bytes_text(self.device_bytes)} for the program, {bytes_text(self.staging_bytes)} "
            f"for stores under way, {bytes_text(self.process_bytes)} for the rest"
        )
        where = (
            f"in {self.phases} phases of {self.graphs} kinds, with "
            f"{bytes_text(self.remote_bytes)} in files"
            if self.phases > 1
            else "whole in memory"
        )
        return f"{total} of {limit} ({parts}); {where}"


class DoesNotFitError(Exception):
    """The process without the program is larger than its memory."""


def may_be_whole(
    fit: MemoryFit, tensors: Mapping[str, torch.Tensor], training: bool, replicas: int
) -> bool:
    """Tell whether compiling the whole program is worth a try.

    Args:
        fit: What the model must fit in.
        tensors: Parameters and buffers.
        training: Whether the program trains.
        replicas: How many replicas of it there are, each with its weights.

    Returns:
        Whether the process has room for the weights and, in training, their gradients.
    """
    weights = replicas * sum(tensor.nbytes for tensor in tensors.values())
    return claimed_bytes() + SPARE_BYTES + weights * (2 if training else 1) < fit.memory_bytes


def budget_of(fit: MemoryFit, program: Program) -> MemoryBudget:
    """Share the memory of the process out.

    Args:
        fit: What the model must fit in.
        program: Its program.

    Returns:
        The shares.

    Raises:
        DoesNotFitError: The process alone is larger.
    """
    release_all_pages()
    try:
        replicas = program.ir.replication_factor
        return MemoryBudget.of(program.phase_bytes, fit.memory_bytes, replicas)
    except ValueError as error:
        raise DoesNotFitError(f"fit_in: {error}") from error


def settings_of(fit: MemoryFit, budget: MemoryBudget) -> dict[str, Any]:
    """What sessions are asked for.

    Args:
        fit: What the model must fit in.
        budget: The shares of the memory.

    Returns:
        Arguments of `pando.settings.use_session_settings`.
    """
    return {
        "memory_limit_bytes": budget.device_bytes,
        "keep_host_values": False,
        "remote_tier": "file",
        "remote_folder": fit.folder,
        "remote_staging_bytes": budget.staging_bytes,
        "remote_prefetch_bytes": budget.prefetch_bytes,
    }


def plan_of(
    fit: MemoryFit, budget: MemoryBudget, program: Program, session: popxl.Session
) -> FitPlan:
    """Say what was planned.

    Args:
        fit: What the model must fit in.
        budget: The shares of the memory.
        program: Its program.
        session: The compiled program.

    Returns:
        The plan.
    """
    is_phased, replicas = program.phases > 1, program.ir.replication_factor
    return FitPlan(
        fit.memory_bytes,
        budget.process_bytes,
        replicas * memory_plan(session).peak_bytes,
        replicas * budget.staging_bytes if is_phased else 0,
        RemoteRows(session, {}).total_bytes,
        program.phases,
        program.graphs,
    )


def check_disk(fit: MemoryFit, remote_bytes: int) -> None:
    """Refuse what the disk cannot hold.

    Args:
        fit: What the model must fit in.
        remote_bytes: What goes into files.

    Raises:
        Error: There is less room in the folder.
    """
    free = shutil.disk_usage(fit.folder).free
    if remote_bytes > free:
        raise createPoptorchError(
            f"fit_in: weights, state and what goes from phase to phase take "
            f"{bytes_text(remote_bytes)} of {fit.folder}, which has {bytes_text(free)} left: give "
            "another folder or make room"
        )
