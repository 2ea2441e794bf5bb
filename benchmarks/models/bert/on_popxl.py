from __future__ import annotations

from functools import partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.frameworks.popxl_models import EncoderLayer, LayerNorm, Linear, table
from benchmarks.models.bert import Bert


class Net(addons.Module):
    def __init__(self, of: Bert) -> None:
        super().__init__()
        self.of = of
        self.norm, self.head_norm = LayerNorm(), LayerNorm()
        for i in range(of.layers):
            setattr(self, f"layer{i}", EncoderLayer(of.encoder))
        self.transform = Linear(of.encoder.hidden)

    def build(
        self, tokens: popxl.Tensor, segments: popxl.Tensor, rows: popxl.Tensor
    ) -> popxl.Tensor:
        sizes = self.of.encoder
        words = table(self, "tokens", sizes.classes, sizes.hidden)
        positions = table(self, "positions", sizes.sequence, sizes.hidden)
        kinds = table(self, "segments", self.of.segments, sizes.hidden)
        x = ops.gather(words, tokens) + positions + ops.gather(kinds, segments)
        x = self.norm(x.reshape((-1, sizes.hidden)))
        for i in range(self.of.layers):
            x = getattr(self, f"layer{i}")(x)
        x = self.head_norm(ops.gelu(self.transform(ops.gather(x, rows))))
        bias = self.add_variable_input("head_bias", partial(np.zeros, sizes.classes), popxl.float32)
        return x @ words.transpose() + bias
