"""A network of blocks, and the strategies by which several devices run it."""

from __future__ import annotations

import torch

import poptorch

BATCH = 3


class Network(torch.nn.Module):
    """Three parts, each in a block; with skip connections and a weight that two parts share."""

    def __init__(self, annotated, loss_in_block=True):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = torch.nn.Linear(4, 6)
        self.middle = torch.nn.Linear(6, 6)
        self.last = torch.nn.Linear(6, 4)
        self.annotated = annotated
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)

    def block(self, number):
        return poptorch.Block(f"part{number}", ipu_id=number) if self.annotated else NoBlock()

    def forward(self, x, target=None):
        with self.block(0):
            a = torch.tanh(self.first(x))
        with self.block(1):
            b = torch.tanh(self.middle(a)) + a
        with self.block(2):
            # The first part's weight again, and a value that skips a part.
            out = self.last(b * a) @ self.first.weight.T[:, :4] + x
            if target is None:
                return out
            loss = torch.nn.functional.mse_loss(out, target)
            return out, poptorch.identity_loss(loss * 2, "none")


class NoBlock:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def data(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=generator), torch.randn(count, 4, generator=generator)


STRATEGIES = {
    "pipelined": lambda: poptorch.PipelinedExecution(),
    "incremented": lambda: poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement),
    "explicit": lambda: poptorch.PipelinedExecution("part0", "part1", "part2"),
    "one device twice": lambda: poptorch.PipelinedExecution(
        poptorch.Stage("part0").ipu(0),
        poptorch.Stage("part1").ipu(1),
        poptorch.Stage("part2").ipu(0),
    ),
    "two stages": lambda: poptorch.PipelinedExecution(["part0", "part1"], ["part2"]),
    "sharded": lambda: poptorch.ShardedExecution(),
    "serial phases": lambda: poptorch.SerialPhasedExecution(
        poptorch.Phase(poptorch.Stage("part0"), poptorch.Stage("part1")), "part2"
    ),
    "parallel phases": lambda: poptorch.ParallelPhasedExecution(
        poptorch.Phase(poptorch.Stage("part0")).ipus(0),
        poptorch.Phase(poptorch.Stage("part1")).ipus(1),
        poptorch.Phase(poptorch.Stage("part2")).ipus(2),
    ),
}
