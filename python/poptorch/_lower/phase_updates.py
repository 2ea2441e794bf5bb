"""The update of weights that are in remote buffers.

Each is updated as soon as its gradient is complete. Where the optimizer limits the norm of all
gradients, these go to remote buffers too, and all weights are updated behind the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import popxl
from poptorch._lower.dtypes import popxl_dtype
from poptorch._lower.loops import SharedTensors
from poptorch._lower.phase_rows import Row, StoredRow
from poptorch._lower.phase_work import PhasedWork
from poptorch._lower.program import keep_gradient, over_replicas
from poptorch._lower.schedule import SUM
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import Source
from poptorch._lower.update_variables import WeightGradient, WeightPlace
from poptorch._lower.updates import Updates, square_sum
from poptorch._lower.weight_update import WeightUpdate
from popxl import ops

_GRADIENT = "gradient"


class PhaseUpdates:
    """One update of all weights, in the current graph.

    Args:
        work: What there is to do.
        update: How weights are updated.
        shared: The variables that are in memory.
    """

    def __init__(self, work: PhasedWork, update: WeightUpdate, shared: SharedTensors) -> None:
        self._work = work
        self._update = update
        self._shared = shared
        # How many phases are still to give a gradient of each weight.
        self._missing: dict[str, int] = {}
        for gradient in work.gradients:
            for name in gradient.weights if gradient is not None else ():
                self._missing[name] = self._missing.get(name, 0) + 1
        self._loss_scale = update.loss_scale(shared)
        self._begun: set[str] = set()
        self._state: dict[str, tuple[popxl.Tensor, Row]] = {}
        # What is complete where the norm is limited: what it takes to load the gradients, and the
        # sum of their squares.
        self._complete: dict[str, popxl.dtype] = {}
        self._squares: popxl.Tensor | None = None
        self._updates = None if update.values.clips else self._begin_updates()

    def _begin_updates(self) -> Updates:
        groups = [
            [WeightPlace(name) for name in names if name in self._missing]
            for names in self._update.groups
        ]
        return Updates(
            self._update.values, groups, self._make_variable, self._update.automatic, self._squares
        )

    def _make_variable(
        self, name: str, initial: np.ndarray, weight: WeightGradient | None
    ) -> popxl.Tensor:
        if weight is None:
            return self._shared.variable(name, initial)
        if name not in self._state:
            dtype = popxl.float16 if initial.dtype == np.float16 else popxl.float32
            kind = name.removesuffix(weight.name)
            row = self._work.rows.of(Source("tensor", weight.name), kind, dtype)
            self._state[name] = ops.remote_load(row.buffer, row.number, name), row
            self._work.stored[name] = StoredRow(row, float(initial.flat[0]), weight.grouping)
        return self._state[name][0]

    def counters(self) -> list[popxl.Tensor]:
        """Give what `observe` writes to.

        Returns:
            Tensors of the current graph; nothing if the loss scale is fixed.
        """
        return self._loss_scale.counters()

    def observe(
        self, gradients: Sequence[WeightGradient], counters: Sequence[popxl.Tensor]
    ) -> None:
        """Let automatic loss scaling see the gradients of a micro-batch.

        Args:
            gradients: Those of one phase.
            counters: The counters, in the graph of the micro-batch.
        """
        self._loss_scale.observe(gradients, counters)

    def first_sums(self, gradient: StageGradient) -> list[popxl.Tensor]:
        """Make the sums of the gradients of several micro-batches.

        Args:
            gradient: The gradient of a phase.

        Returns:
            Zeros for each of its weights; nothing if there is one micro-batch.
        """
        if self._work.loops.micro_batches == 1:
            return []
        dtype = popxl_dtype(self._update.values.accum_type)
        return [
            ops.init(tensor.shape, dtype, name=SUM + name)
            for name, tensor in gradient.weights.items()
        ]

    def add(self, total: popxl.Tensor, gradient: popxl.Tensor) -> None:
        """Add the gradient of a micro-batch to a sum.

        Args:
            total: The sum, in place.
            gradient: The gradient.
        """
        means = self._work.schedule.keeps_means
        share = 1 / self._work.loops.micro_batches if means else None
        ops.var_updates.accumulate_(total, gradient, share)

    def update(
        self,
        gradient: StageGradient,
        weights: Mapping[Source, popxl.Tensor],
        totals: Sequence[popxl.Tensor],
    ) -> None:
        """Update the weights of a phase whose gradients are complete, and keep other gradients.

        Args:
            gradient: The gradient of the phase.
            weights: The tensors of the module that the phase reads, which are written in place.
            totals: The gradients over all micro-batches, one for each weight.
        """
        for name, total in zip(gradient.weights, totals, strict=True):
            self._missing[name] -= 1
            if name in self._begun:
                row = self._gradient_row(name, total.dtype)
                total = ops.add(total, ops.remote_load(row.buffer, row.number))
            if self._missing[name]:
                self._begun.add(name)
                self._store_gradient(name, total)
                continue
            if name in self._work.schedule.kept_sums:
                self._keep_sum(name, total)
            grouping = self._work.groupings.get(name)
            accum_type = self._update.values.accum_type
            total = over_replicas(total, self._work.schedule, accum_type, grouping)
            complete = WeightGradient(name, weights[Source("tensor", name)], total, grouping)
            if self._updates is None:
                self._keep(complete)
            else:
                self._update_one(self._updates, complete)

    def _keep_sum(self, name: str, total: popxl.Tensor) -> None:
        """Copies a sum of gradients to a variable, where it can be read."""
        initial = np.zeros(total.shape, total.dtype.as_numpy())
        ops.var_updates.copy_var_update_(self._shared.variable(SUM + name, initial), total)

    def _gradient_row(self, name: str, dtype: popxl.dtype) -> Row:
        return self._work.rows.of(Source("tensor", name), _GRADIENT, dtype)

    def _store_gradient(self, name: str, gradient: popxl.Tensor) -> None:
        row = self._gradient_row(name, gradient.dtype)
        ops.remote_store(row.buffer, row.number, gradient)

    def _keep(self, complete: WeightGradient) -> None:
        """Leaves a gradient for later, when all are known."""
        square = square_sum(complete)
        self._squares = square if self._squares is None else ops.add(self._squares, square)
        self._complete[complete.name] = complete.gradient.dtype
        self._store_gradient(complete.name, complete.gradient)

    def _update_one(self, updates: Updates, complete: WeightGradient) -> None:
        name = complete.name
        if name in self._work.schedule.kept_gradients:
            keep_gradient(complete, self._shared)
        self._state.clear()
        updates.update(complete)
        row = self._work.rows.of(Source("tensor", name))
        ops.remote_store(row.buffer, row.number, complete.weight)
        for state, place in self._state.values():
            ops.remote_store(place.buffer, place.number, state)

    def finish(self) -> None:
        """Update what waits for the norm of all gradients, and end the update."""
        updates = self._updates or self._begin_updates()
        for name, dtype in self._complete.items():
            row, kept = self._work.rows.of(Source("tensor", name)), self._gradient_row(name, dtype)
            weight = ops.remote_load(row.buffer, row.number, name)
            gradient = ops.remote_load(kept.buffer, kept.number)
            grouping = self._work.groupings.get(name)
            self._update_one(updates, WeightGradient(name, weight, gradient, grouping))
        self._update.state = updates.finish()
