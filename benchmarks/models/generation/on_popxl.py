from __future__ import annotations

from functools import partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.cases import Case
from benchmarks.frameworks import popxl_programs as programs
from benchmarks.frameworks.popxl_models import LayerNorm, TransformerLayer, table
from benchmarks.models.generation import SIZES, Generation


class CachedLayer(TransformerLayer):
    """One token of each text sees itself and what the caches hold."""

    def __init__(self, of: Generation) -> None:
        super().__init__(of.of.decoder)
        self.generation = of

    def _cache(self, name: str, new: popxl.Tensor, position: popxl.Tensor) -> popxl.Tensor:
        zeros = partial(np.zeros, self.generation.cache_shape(new.shape[0]))
        cache = self.add_variable_input(name, zeros, popxl.float32, by_ref=True)
        return ops.dynamic_update_(cache, position, new, [2], [1], True)

    def build(self, x: popxl.Tensor, position: popxl.Tensor) -> popxl.Tensor:
        def attend(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
            keys, values = self._cache("keys", k, position), self._cache("values", v, position)
            return ops.scaled_dot_product_attention(q, keys, values, length=position + 1)

        return self.around(x, 1, attend)


class Net(addons.Module):
    def __init__(self, of: Generation) -> None:
        super().__init__()
        self.of = of.of
        for i in range(self.of.layers):
            setattr(self, f"layer{i}", CachedLayer(of))
        self.norm = LayerNorm()

    def build(self, tokens: popxl.Tensor, position: popxl.Tensor) -> popxl.Tensor:
        sizes = self.of.decoder
        words = table(self, "tokens", sizes.classes, sizes.hidden)
        positions = table(self, "positions", sizes.sequence, sizes.hidden)
        x = ops.gather(words, tokens) + ops.gather(positions, position)
        x = x.reshape((-1, sizes.hidden))
        for i in range(self.of.layers):
            x = getattr(self, f"layer{i}")(x, position)
        return self.norm(x) @ words.transpose()


def program(case: Case) -> programs.BuiltProgram:
    """Its inputs are tokens int32 (batch, 1) and their position, int32 (1,)."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        shapes = ((case.batch, 1), (1,))
        streams = [
            popxl.h2d_stream(shape, popxl.int32, f"input{i}") for i, shape in enumerate(shapes)
        ]
        given = [ops.host_load(stream) for stream in streams]
        facts, graph = Net(SIZES[case.variant]).create_graph(*given)
        (scores,) = graph.bind(programs.init(facts, SIZES[case.variant].weights())).call(*given)
        output = programs.store(scores, "scores")
    ir.num_host_transfers = 1
    return programs.BuiltProgram(ir, streams, output)
