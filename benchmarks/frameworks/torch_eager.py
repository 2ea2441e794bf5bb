"""PyTorch as people write it: modules, ``torch.optim``, ``backward``, ``loss.item``."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import torch_models, torch_ops
from benchmarks.models import families, generation
from benchmarks.program import NotMeasured, Steps


def _train(case: Case) -> Steps:
    net = torch_models.model(case)
    optimizer = torch_models.optimizer(case, net)
    loss_of = torch_models.loss_of(case)
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> list[float]:
        losses = []
        for batch in itertools.islice(feed, steps):
            optimizer.zero_grad()
            total = 0.0
            for *inputs, labels in torch_models.micro_batches(case, torch_models.tensors(batch)):
                loss = loss_of(net(*inputs), labels)
                if case.accumulation > 1:
                    loss = loss / case.accumulation
                loss.backward()
                total += loss.item()
            optimizer.step()
            losses.append(total)
        return losses

    return Steps(run)


def _infer(case: Case) -> Steps:
    net = torch_models.model(case).eval()
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> Any:
        with torch.no_grad():
            for batch in itertools.islice(feed, steps):
                outputs = net(*torch_models.tensors(batch[:-1])).numpy()
        return outputs

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
    if case.family == "generation":
        net = torch_models.model(case).eval()
        decoder = families.on("torch", case).decoder
        return generation.steps(case, decoder(families.model(case), case.batch, net))
    if case.variant or case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    return _pass_over_memory(case)
