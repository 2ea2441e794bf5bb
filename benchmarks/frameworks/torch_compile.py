"""PyTorch at its best: the whole step inside ``torch.compile``, several ways, the fastest kept."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config as inductor
from torch.func import functional_call, grad_and_value

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import torch_models
from benchmarks.models import families, generation
from benchmarks.program import NotMeasured, Once, Program, Steps, fastest

Step = Callable[..., torch.Tensor]
Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]
Variants = list[tuple[str, Callable[[], Steps]]]


def _adam_move(
    case: Case,
    weight: torch.Tensor,
    grad: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor],
    count: torch.Tensor,
) -> torch.Tensor:
    """Updates both moments and returns what the rate is multiplied with."""
    first, second = moments
    mean = torch.lerp(first.float(), grad, 1 - data.BETA1)
    first.copy_(mean)
    second.mul_(data.BETA2).addcmul_(grad, grad, value=1 - data.BETA2)
    if case.optimizer == "tutorial_adam":
        return mean / (second.sqrt() + data.EPSILON)
    root = (second / (1 - data.BETA2**count)).sqrt()
    move = mean / (1 - data.BETA1**count) / (root + data.EPSILON)
    return move + data.WEIGHT_DECAY * weight if case.optimizer == "adamw" else move


def functional_step(case: Case) -> Step:
    """Forward, gradient and update as one traced function that writes parameters in place."""
    net = torch_models.model(case)
    if case.variant and hasattr(families.on("torch", case), "functional_step"):
        step: Step = families.on("torch", case).functional_step(families.model(case), net)
        return step
    params = {name: value.detach() for name, value in net.named_parameters()}
    names = list(params)
    moment = torch.float16 if case.optimizer == "tutorial_adam" else torch.float32
    first, second = {}, {}
    if case.optimizer != "sgd":
        first = {name: torch.zeros_like(value, dtype=moment) for name, value in params.items()}
    if "adam" in case.optimizer:
        second = {name: torch.zeros_like(value) for name, value in params.items()}
    loss_of_outputs = torch_models.loss_of(case)
    # Of batch norms: arguments, since a function that is differentiated may write only these.
    buffers = dict(net.named_buffers())

    def loss_of(
        values: dict[str, torch.Tensor], written: dict[str, torch.Tensor], *batch: torch.Tensor
    ) -> torch.Tensor:
        outputs = functional_call(net, {**values, **written}, batch[:-1])
        return loss_of_outputs(outputs, batch[-1])

    # A tensor: a number would be compiled into the step anew each time.
    count = torch.zeros(())

    def whole_step(*batch: torch.Tensor) -> torch.Tensor:
        grads, loss = grad_and_value(loss_of)(params, buffers, *batch)
        count.add_(1.0)
        for name in names:
            move = grads[name]
            if case.optimizer == "momentum":
                move = first[name].mul_(data.MOMENTUM).add_(move)
            elif case.optimizer != "sgd":
                moments = first[name], second[name]
                move = _adam_move(case, params[name], move, moments, count)
            params[name].sub_(move, alpha=data.LEARNING_RATE)
        return loss

    return whole_step


def _optimizer_step(case: Case, **options: Any) -> Step:
    """The usual loop body; Dynamo compiles forward, backward and ``torch.optim`` in pieces."""
    net = torch_models.model(case)
    loss_of = torch_models.loss_of(case)
    optimizer = torch_models.optimizer(case, net, **options)

    def step(*batch: torch.Tensor) -> torch.Tensor:
        loss = loss_of(net(*batch[:-1]), batch[-1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def accumulating_step(case: Case, compiled: Compiler, **options: Any) -> Step:
    """A loop body over micro-batches: their gradients and the update are compiled by ``compiled``,
    each once; ``options`` are those of the optimizer."""
    net = torch_models.model(case)
    loss_of = torch_models.loss_of(case)
    optimizer = torch_models.optimizer(case, net, **options)
    part_of_loss = compiled(lambda *batch: loss_of(net(*batch[:-1]), batch[-1]) / case.accumulation)
    update = compiled(optimizer.step)

    def step(*batch: torch.Tensor) -> torch.Tensor:
        losses = []
        for part in torch_models.micro_batches(case, batch):
            loss = part_of_loss(*part)
            loss.backward()
            losses.append(loss.detach())
        update()
        optimizer.zero_grad(set_to_none=True)
        return torch.stack(losses).sum()

    return step


def _loop(case: Case, step: Step) -> Steps:
    feed = itertools.cycle(torch_models.host_batches(case))

    def run(steps: int) -> list[float]:
        losses = [step(*torch_models.tensors(batch)) for batch in itertools.islice(feed, steps)]
        return [loss.item() for loss in losses]

    return Steps(run, warm=8)


def _training_variants(case: Case) -> Variants:
    def variant(make: Callable[[Compiler], Step], **options: Any) -> Callable[[], Steps]:
        def build_variant() -> Steps:
            torch._dynamo.reset()
            return _loop(case, make(partial(torch.compile, options=options or None)))

        return build_variant

    def accumulating(**options: Any) -> Callable[[Compiler], Step]:
        return lambda compiled: accumulating_step(case, compiled, **options)

    def one_graph(compiled: Compiler) -> Step:
        return compiled(functional_step(case))

    def loop_body(**options: Any) -> Callable[[Compiler], Step]:
        return lambda compiled: compiled(_optimizer_step(case, **options))

    if case.accumulation > 1:
        fused = "micro-batch, fused optimizer"
        return [
            (fused, variant(accumulating(fused=True))),
            ("micro-batch, foreach optimizer", variant(accumulating(foreach=True))),
            (f"{fused}, cpp_wrapper", variant(accumulating(fused=True), cpp_wrapper=True)),
        ]
    variants = [
        ("one graph", variant(one_graph)),
        ("one graph, cpp_wrapper", variant(one_graph, cpp_wrapper=True)),
    ]
    # torch.optim has no Adam with a float16 moment.
    if case.optimizer != "tutorial_adam":
        variants += [
            ("loop body, fused optimizer", variant(loop_body(fused=True))),
            ("loop body, foreach optimizer", variant(loop_body(foreach=True))),
        ]
    return variants


def _inference(case: Case, **options: Any) -> Steps:
    torch._dynamo.reset()
    model = torch_models.model(case).eval()
    if case.family == "generation":
        decoder = families.on("torch", case).compiled_decoder
        decode = decoder(families.model(case), case.batch, model, **options)
        return generation.steps(case, decode, warm=8)
    feed = itertools.cycle(torch_models.host_batches(case))
    net = torch.compile(model, options=options or None)

    def run(steps: int) -> Any:
        with torch.no_grad():
            for batch in itertools.islice(feed, steps):
                outputs = net(*torch_models.tensors(batch[:-1])).numpy()
        return outputs

    return Steps(run, warm=8)


def _inference_variants(case: Case) -> Variants:
    def variant(**options: Any) -> Callable[[], Steps]:
        return partial(_inference, case, **options)

    return [
        ("default", variant()),
        ("freezing", variant(freezing=True)),
        ("freezing, cpp_wrapper", variant(freezing=True, cpp_wrapper=True)),
    ]


def _variants(case: Case) -> Variants:
    return _training_variants(case) if case.training else _inference_variants(case)


def forms(case: Case) -> list[str]:
    """What ``Case.form`` can be."""
    return [name for name, _ in _variants(case)]


def _network(case: Case) -> Steps:
    """The form that the case names, or the fastest."""
    chosen = [(name, make) for name, make in _variants(case) if case.form in ("", name)]
    if len(chosen) > 1:
        return fastest(chosen)
    ((name, make),) = chosen
    steps = make()
    steps.note = name
    return steps


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
    batch = torch_models.tensors(torch_models.host_batches(case)[0])

    def measure() -> float:
        torch._dynamo.reset()
        with inductor.patch(force_disable_caches=True):
            step = torch.compile(functional_step(case))
            start = time.perf_counter()
            step(*batch)
            first = time.perf_counter()
            step(*batch)
            return (first - start) - (time.perf_counter() - first)

    return Once(measure)


def build(case: Case, threads: int) -> Program:
    torch.set_num_threads(threads)
    if case.mode == "total_mlp":
        return _compile_time(Case("", "mlp", "ms", "train", case.optimizer, case.batch))
    if case.family in ("empty", "compile"):
        raise NotMeasured("no counterpart: sessions and graph reuse are Pando's")
    if case.variant or case.family in NETWORKS:
        return _network(case)
    return _pass_over_memory(case)
