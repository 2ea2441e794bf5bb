from __future__ import annotations

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.frameworks.popxl_models import EncoderLayer, LayerNorm, table
from benchmarks.models.gpt2 import Gpt2


class Net(addons.Module):
    def __init__(self, of: Gpt2) -> None:
        super().__init__()
        self.of = of
        for i in range(of.layers):
            setattr(self, f"layer{i}", EncoderLayer(of.decoder))
        self.norm = LayerNorm()

    def build(self, tokens: popxl.Tensor) -> popxl.Tensor:
        sizes = self.of.decoder
        words = table(self, "tokens", sizes.classes, sizes.hidden)
        positions = table(self, "positions", sizes.sequence, sizes.hidden)
        x = (ops.gather(words, tokens) + positions).reshape((-1, sizes.hidden))
        for i in range(self.of.layers):
            x = getattr(self, f"layer{i}")(x)
        return self.norm(x) @ words.transpose()
