from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks import data
from benchmarks.cases import Case
from benchmarks.frameworks import popxl_programs as programs
from benchmarks.frameworks.popxl_models import Linear
from benchmarks.models.recommender import SIZES, Recommender


class Interaction(addons.Module):
    """What is computed from the dense features and the rows of the tables."""

    def __init__(self, of: Recommender) -> None:
        super().__init__()
        self.of = of
        for name, (_, outputs) in of.dense_layers.items():
            setattr(self, name, Linear(outputs))

    def _layers(self, part: str, x: popxl.Tensor) -> popxl.Tensor:
        names = [name for name in self.of.dense_layers if name.startswith(part)]
        for name in names:
            x = getattr(self, name)(x)
            if part == "bottom" or name != names[-1]:
                x = ops.relu(x)
        return x

    def build(self, dense: popxl.Tensor, looked_up: Sequence[popxl.Tensor]) -> popxl.Tensor:
        count = self.of.tables + 1
        x = self._layers("bottom", dense)
        vectors = ops.concat([x, *looked_up], axis=1).reshape((-1, count, self.of.width))
        products = (vectors @ vectors.transpose((0, 2, 1))).reshape((-1, count**2))
        first, second = (np.array(index, np.int32) for index in self.of.pairs)
        pairs = popxl.constant(first * count + second, popxl.int32, "pairs")
        joined = ops.concat([x, ops.gather(products, pairs, axis=1)], axis=1)
        return self._layers("top", joined).reshape((-1,))


def training(case: Case) -> programs.BuiltProgram:
    """The rows are read and updated in the main graph; no gradient is as large as a table."""
    of: Recommender = SIZES[case.variant]
    weights = of.weights()
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        streams, (dense, rows, labels) = programs.load(case, labels=True)
        tables = [popxl.variable(weights.pop(name), popxl.float32, name) for name in of.table_names]
        ids = [part.reshape((-1,)) for part in ops.split(rows, of.tables, axis=0)]
        looked_up = [ops.gather(table, at) for table, at in zip(tables, ids, strict=True)]
        facts, forward = Interaction(of).create_graph(dense, looked_up)
        # All inputs but the dense features have gradients, the variables behind the rows.
        row_inputs = forward.graph.inputs[1 : of.tables + 1]
        wanted = [*row_inputs, *forward.args.tensors]
        backward = addons.autodiff(forward, grads_required=wanted)
        variables = programs.init(facts, weights)
        info = forward.bind(variables).call_with_info(dense, looked_up)
        loss, gradient = programs.loss_with_grad(case, info.outputs[0], labels)
        output = programs.store(loss, "loss")
        grad_info = backward.grad_graph_info
        grad_call = backward.call_with_info(gradient, args=grad_info.inputs_dict(info))
        grads = grad_info.fwd_parent_ins_to_grad_parent_outs(info, grad_call)
        programs.Updates(case).add(variables, grads)
        for table, at, read in zip(tables, ids, looked_up, strict=True):
            ops.var_updates.sparse_accumulate_(
                table, grads[read], at, axis=0, f=-data.LEARNING_RATE
            )
    ir.num_host_transfers = 1
    return programs.BuiltProgram(ir, streams, output)
