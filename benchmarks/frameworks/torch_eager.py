"""PyTorch as people write it: modules, ``torch.optim``, ``backward``, ``loss.item``."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import torch_models, torch_ops
from benchmarks.program import NotMeasured, Steps


def _train(case: Case) -> Steps:
    net = torch_models.model(case)
    if case.optimizer == "tutorial_adam":
        optimizer: torch.optim.Optimizer = torch_models.TutorialAdam(net.parameters())
    elif case.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), **torch_models.ADAM_OPTIONS)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=data.LEARNING_RATE)
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> list[float]:
        losses = []
        for x, labels in itertools.islice(feed, steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(labels))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return Steps(run)


def _infer(case: Case) -> Steps:
    net = torch_models.model(case).eval()
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> Any:
        with torch.no_grad():
            for x, _ in itertools.islice(feed, steps):
                logits = net(torch.from_numpy(x)).numpy()
        return logits

    return Steps(run)


def _pass_over_memory(case: Case) -> Steps:
    function, x = torch_models.chain(case)

    def run(steps: int) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(steps):
                result = function(x)
        return result

    return Steps(run)


def build(case: Case, threads: int) -> Steps:
    torch.set_num_threads(threads)
    if case.family == "op":
        return torch_ops.build(case)
    if case.family in ("empty", "compile"):
        raise NotMeasured("eager code compiles nothing and has no session")
    if case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    return _pass_over_memory(case)
