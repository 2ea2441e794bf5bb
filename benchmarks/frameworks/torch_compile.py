"""PyTorch at its best: the whole step inside ``torch.compile``, several ways, the fastest kept."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config as inductor
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import torch_models
from benchmarks.program import NotMeasured, Once, Program, Steps, fastest

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def functional_step(case: Case) -> Step:
    """Forward, gradient and update as one traced function that writes parameters in place."""
    net = torch_models.model(case)
    params = {name: value.detach() for name, value in net.named_parameters()}
    names = list(params)
    moment = torch.float16 if case.optimizer == "tutorial_adam" else torch.float32
    first = {name: torch.zeros_like(value, dtype=moment) for name, value in params.items()}
    second = {name: torch.zeros_like(value) for name, value in params.items()}

    def loss_of(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(net, values, (x,)), y)

    # A tensor: a number would be compiled into the step anew each time.
    count = torch.zeros(())

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        grads, loss = grad_and_value(loss_of)(params, x, labels)
        count.add_(1.0)
        first_scale, second_scale = 1 - data.BETA1**count, 1 - data.BETA2**count
        for name in names:
            grad = grads[name]
            if case.optimizer != "sgd":
                mean = torch.lerp(first[name].float(), grad, 1 - data.BETA1)
                first[name].copy_(mean)
                second[name].mul_(data.BETA2).addcmul_(grad, grad, value=1 - data.BETA2)
                if case.optimizer == "adam":
                    root = (second[name] / second_scale).sqrt()
                    grad = mean / first_scale / (root + data.EPSILON)
                else:
                    grad = mean / (second[name].sqrt() + data.EPSILON)
            params[name].sub_(grad, alpha=data.LEARNING_RATE)
        return loss

    return step


def _optimizer_step(case: Case, **options: Any) -> Step:
    """The usual loop body; Dynamo compiles forward, backward and ``torch.optim`` in pieces."""
    net = torch_models.model(case)
    kind = torch.optim.Adam if case.optimizer == "adam" else torch.optim.SGD
    settings = torch_models.ADAM_OPTIONS if case.optimizer == "adam" else {"lr": data.LEARNING_RATE}
    optimizer = kind(net.parameters(), **settings, **options)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def _loop(case: Case, step: Step) -> Steps:
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> list[float]:
        losses = [
            step(torch.from_numpy(x), torch.from_numpy(labels))
            for x, labels in itertools.islice(feed, steps)
        ]
        return [loss.item() for loss in losses]

    return Steps(run, warm=8)


def _train(case: Case) -> Steps:
    def compiled(make: Callable[[], Step], **options: Any) -> Callable[[], Steps]:
        def build_variant() -> Steps:
            torch._dynamo.reset()
            return _loop(case, torch.compile(make(), options=options or None))

        return build_variant

    variants = [
        ("one graph", compiled(lambda: functional_step(case))),
        ("one graph, cpp_wrapper", compiled(lambda: functional_step(case), cpp_wrapper=True)),
    ]
    # torch.optim has no Adam with a float16 moment.
    if case.optimizer != "tutorial_adam":
        variants += [
            ("loop body, fused optimizer", compiled(lambda: _optimizer_step(case, fused=True))),
            ("loop body, foreach optimizer", compiled(lambda: _optimizer_step(case, foreach=True))),
        ]
    return fastest(variants)


def _infer(case: Case) -> Steps:
    feed = itertools.cycle(torch_models.host_batches(case))

    def variant(**options: Any) -> Callable[[], Steps]:
        def build_variant() -> Steps:
            torch._dynamo.reset()
            net = torch.compile(torch_models.model(case).eval(), options=options or None)

            def run(steps: int) -> Any:
                with torch.no_grad():
                    for x, _ in itertools.islice(feed, steps):
                        logits = net(torch.from_numpy(x)).numpy()
                return logits

            return Steps(run, warm=8)

        return build_variant

    return fastest(
        [
            ("default", variant()),
            ("freezing", variant(freezing=True)),
            ("freezing, cpp_wrapper", variant(freezing=True, cpp_wrapper=True)),
        ]
    )


def _pass_over_memory(case: Case) -> Steps:
    """Writes into an array that exists, so that no page is touched for the first time."""
    torch._dynamo.reset()
    function, x = torch_models.chain(case)
    y = torch.empty_like(x)
    compiled = torch.compile(lambda source, target: target.copy_(function(source)))

    def run(steps: int) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(steps):
                compiled(x, y)
        return y

    return Steps(run)


def _compile_time(case: Case) -> Once:
    """First call minus second call, every cache off."""
    x, labels = (torch.from_numpy(v) for v in torch_models.host_batches(case)[0])

    def measure() -> float:
        torch._dynamo.reset()
        with inductor.patch(force_disable_caches=True):
            step = torch.compile(functional_step(case))
            start = time.perf_counter()
            step(x, labels)
            first = time.perf_counter()
            step(x, labels)
            return (first - start) - (time.perf_counter() - first)

    return Once(measure)


def build(case: Case, threads: int) -> Program:
    torch.set_num_threads(threads)
    if case.mode == "total_mlp":
        return _compile_time(Case("", "mlp", "ms", "train", case.optimizer, case.batch))
    if case.family in ("empty", "compile"):
        raise NotMeasured("no counterpart: sessions and graph reuse are Pando's")
    if case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    return _pass_over_memory(case)
