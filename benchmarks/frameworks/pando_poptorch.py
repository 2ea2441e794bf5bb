"""The peers' torch modules and optimizers, run by poptorch."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import torch

import poptorch
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import torch_models
from benchmarks.program import NotMeasured, Steps


class WithLoss(torch.nn.Module):
    """A network whose last input is the labels and whose result is the loss."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.net = torch_models.model(case)
        self._loss_of = torch_models.loss_of(case)

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        *inputs, labels = batch
        return self._loss_of(self.net(*inputs), labels)


def _options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


def _train(case: Case) -> Steps:
    module = WithLoss(case)
    optimizer = torch_models.optimizer(case, module)
    options = _options()
    if case.fit_in:
        options.fit_in(case.fit_in, tempfile.gettempdir())
    if case.accumulation > 1:
        options.Training.gradientAccumulation(case.accumulation)
        options.outputMode(poptorch.OutputMode.Sum)
    model = poptorch.trainingModel(module, options, optimizer)
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> list[float]:
        batches = itertools.islice(feed, steps)
        losses = [model(*torch_models.tensors(batch)).item() for batch in batches]
        return [loss / case.accumulation for loss in losses]

    return Steps(run, close=model.destroy)


def _infer(case: Case) -> Steps:
    model = poptorch.inferenceModel(torch_models.model(case).eval(), _options())
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> Any:
        for batch in itertools.islice(feed, steps):
            outputs = model(*torch_models.tensors(batch[:-1])).numpy()
        return outputs

    return Steps(run, close=model.destroy)


def _near_empty() -> Steps:
    """A call of a wrapped module that adds two numbers."""

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model = poptorch.inferenceModel(Add(), _options())
    x = torch.zeros(1)

    def run(steps: int) -> Any:
        for _ in range(steps):
            result = model(x)
        return result.numpy()

    return Steps(run, close=model.destroy)


def build(case: Case, threads: int) -> Steps:
    """The program of a row.

    Raises NotMeasured for rows that are no torch modules.
    """
    del threads  # Pando takes every core that the process may use; the worker limits those
    if case.family == "empty":
        return _near_empty()
    if case.variant or case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    raise NotMeasured(f"{case.family} is no torch module")
