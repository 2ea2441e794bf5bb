"""Gradient graphs, with and without accumulation of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

import popxl
from pando import _core
from popxl.context import get_current_context
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.dot_tree import DotTree, sanitise
from popxl_addons.grad_graph_info import remap_grad_info
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_common import CalledGraphsGradInfoLike
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

__all__ = ["autodiff", "autodiff_with_accumulation", "remap_grad_info"]

COUNTER = "mean_accum_counter"

ReplicaGroupings = Mapping[str, popxl.ReplicaGrouping] | DotTree[popxl.ReplicaGrouping]


def autodiff(
    graph: GraphWithNamedArgs | popxl.Graph,
    grads_provided: Sequence[popxl.Tensor] | None = None,
    grads_required: Sequence[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
) -> GraphWithNamedArgs:
    """Makes the gradient graph of a graph.

    Forward tensors that the gradient needs become further outputs of the forward graph. The inputs
    of the gradient graph are the provided gradients, then those forward tensors.

    Args:
        graph: The forward graph.
        grads_provided: Its outputs whose gradients are given; None means all.
        grads_required: Its inputs whose gradients are wanted, in the order of the results; None
            means all.
        called_graphs_grad_info: Gradients of called graphs that exist; they win over those that the
            wrapper has.

    Returns:
        The gradient graph, with its `grad_graph_info` and without named arguments.
    """
    wrapper = graph if isinstance(graph, GraphWithNamedArgs) else GraphWithNamedArgs(graph)
    return wrapper._transformed(grads_provided, grads_required, called_graphs_grad_info)


def _accumulator_factory(
    key: str, tensor: popxl.Tensor, replica_groupings: ReplicaGroupings | None
) -> VariableFactory:
    name = key.removeprefix("accum.")
    grouping = None
    if replica_groupings is not None and name in replica_groupings:
        grouping = replica_groupings[name]
    # A value that takes no memory: most accumulators are made by init_zero.
    zeros = partial(np.broadcast_to, np.float32(0), tensor.shape)
    return VariableFactory(zeros, tensor.dtype, key, True, grouping)


def autodiff_with_accumulation(
    graph: GraphWithNamedArgs,
    tensors_to_accumulate_grads: Sequence[popxl.Tensor],
    grads_provided: Sequence[popxl.Tensor] | None = None,
    grads_required: Sequence[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    replica_groupings: ReplicaGroupings | None = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """Makes a gradient graph that keeps the running mean, or the sum, of gradients in variables.

    A call with counter c makes accum = c / (c + 1) accum + 1 / (c + 1) gradient, or, of a sum,
    accum = accum + gradient, then adds 1 to the counter; a counter of 0 starts afresh. Sums alone
    may be shared: gradient graphs of several uses of one variable, in different stages of a
    pipeline too, may be bound to the same accumulators and counter.

    Args:
        graph: The forward graph.
        tensors_to_accumulate_grads: Its inputs whose gradients are accumulated.
        grads_provided: Its outputs whose gradients are given; None means all.
        grads_required: Its inputs whose gradients are returned; None means none.
        called_graphs_grad_info: As for `autodiff`.
        replica_groupings: Flat key in `graph.args` -> grouping of the accumulator. None, and a
            key that it lacks, mean all replicas.
        reduction: `mean` or `sum`: what is made of the gradients of several calls.

    Returns:
        Factories of the accumulators `accum.<key>` and of `mean_accum_counter`, float32; and the
        gradient graph, which has them as named arguments by reference.

    Raises:
        ValueError: `reduction` is another word.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f"autodiff_with_accumulation: wanted reduction 'mean' or 'sum'; given {reduction!r}"
        )
    accumulated = list(tensors_to_accumulate_grads)
    required = [*(grads_required or ()), *accumulated]
    gradient = autodiff(graph, grads_provided, required, called_graphs_grad_info)
    names = {tensor: key for key, tensor in graph.args.to_dict().items()}
    keys = [f"accum.{names.get(tensor) or sanitise(tensor.name)}" for tensor in accumulated]
    context = get_current_context()
    core = _core.accumulate_gradients(
        gradient.grad_graph_info._pb,
        context.scoped(COUNTER),
        [context.scoped(key) for key in keys],
        reduction == "sum",
        context.op_context("accumulate"),
    )
    factories = {
        COUNTER: VariableFactory(partial(np.zeros, ()), popxl.float32, COUNTER, by_ref=True)
    }
    args = {COUNTER: popxl.Tensor._from_pb(core.counter)}
    for key, tensor, accum in zip(keys, accumulated, core.accumulators, strict=True):
        factories[key] = _accumulator_factory(key, tensor, replica_groupings)
        args[key] = popxl.Tensor._from_pb(accum)
    return NamedVariableFactories.from_dict(factories), GraphWithNamedArgs.from_grad_graph(
        GradGraphInfo._from_core(core.info), NamedTensors.from_dict(args)
    )
