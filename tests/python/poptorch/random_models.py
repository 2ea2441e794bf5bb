"""Random models of torch in the ways in which they are run, compared with eager torch.

The lines are those of `random_programs`, with weights of more shapes and layers of `torch.nn`. As a
program (`python -m tests.python.poptorch.random_models COUNT SEED MODE`) it prints the programs
that differ, as text. The modes are `inference`, `training`, `fit_in` and `half`.
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn

import poptorch
from poptorch import _compilation
from tests.python.poptorch.random_layers import Model, line_with_weights
from tests.python.poptorch.random_programs import (
    REFUSED,
    STABLE,
    TOLERANCE,
    Outcome,
    Program,
    difference,
    inputs_of,
    loss_of,
    random_program,
)

CALLS = 3
# What phases cannot do, as the guide says.
REFUSED_IN_PHASES = ("and computes with its old value", "in one phase and writes it in another one")
Inputs = tuple[torch.Tensor, ...]


def micro_batch(seed: int, number: int, module: Program) -> Inputs:
    """Inputs in the type of a module."""
    dtype = module.p.dtype
    return tuple(
        t.to(dtype) if t.is_floating_point() else t for t in inputs_of(seed + 1000003 * number)
    )


def batch_of(batches: list[Inputs]) -> Inputs:
    return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


def combined(results: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    """The results of several micro-batches as a run returns them."""
    if len(results) == 1:
        return results[0]
    flat = [[t.reshape(t.shape or (1,)) for t in parts] for parts in zip(*results, strict=True)]
    return [torch.cat(parts) for parts in flat]


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def quiet_options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


class Inference:
    """Calls with other inputs, then with other weights.

    Args:
        seed: Of what differs from program to program.
    """

    stable, tolerance = STABLE, TOLERANCE

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.seed, self.iterations = seed, draw.choice([1, 1, 2, 3])
        self.is_evaluated, self.is_loaded = draw.random() < 0.5, draw.random() < 0.5

    def model_of(self, lines: list[str]) -> Model:
        return Model(lines, self.seed).train(not self.is_evaluated)

    def inputs_of(self, call: int, module: Model) -> list[Inputs]:
        first = call * self.iterations
        return [micro_batch(self.seed, first + k, module) for k in range(self.iterations)]

    def new_weights(self, module: nn.Module, start: dict[str, torch.Tensor]) -> None:
        changed = {k: v * 0.75 if v.is_floating_point() else v for k, v in start.items()}
        if self.is_loaded:
            module.load_state_dict(changed)
            return
        with torch.no_grad():
            for name, value in module.state_dict().items():
                value.copy_(changed[name])

    def eager(self, module: Model) -> Outcome:
        start, results = state_of(module), []
        with torch.no_grad():
            for call in range(CALLS):
                if call == 2:
                    self.new_weights(module, start)
                parts = [module(*inputs)[0] for inputs in self.inputs_of(call, module)]
                results += combined(parts)
        return results, state_of(module)

    def given(self, module: Model) -> Outcome:
        start, results = state_of(module), []
        options = quiet_options().deviceIterations(self.iterations)
        executor = poptorch.inferenceModel(module, options)
        try:
            for call in range(CALLS):
                if call == 2:
                    self.new_weights(module, start)
                    executor.copyWeightsToDevice()
                results += executor(*batch_of(self.inputs_of(call, module)))[0]
            executor.copyWeightsToHost()
        finally:
            executor.destroy()
        return results, state_of(module)


LARGEST_NORM = 1.0
# Numbers that keep what rounding leaves of a gradient of 0 from becoming a step.
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.8, nesterov=True),
    "combined": lambda p: poptorch.optim.SGD(p, lr=0.01, momentum=0.9, use_combined_accum=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-2, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-2),
    "scaled": lambda p: poptorch.optim.AdamW(p, lr=0.01, eps=1e-2, loss_scaling=64.0),
    "clipped": lambda p: poptorch.optim.AdamW(p, lr=0.01, eps=1e-2, max_grad_norm=LARGEST_NORM),
    "clipped_sgd": lambda p: poptorch.optim.SGD(p, lr=0.1, max_grad_norm=LARGEST_NORM),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-2, momentum=0.5),
    "centered": lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1.0, centered=True, weight_decay=0.1),
}


class Training:
    """Steps of an optimizer over several micro-batches and replicas.

    Args:
        seed: Of what differs from program to program.
    """

    stable, tolerance = STABLE, TOLERANCE

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.seed = seed
        self.accumulation, self.iterations, self.replicas = draw.choice(
            [(1, 1, 1), (3, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2), (2, 1, 2), (2, 2, 2)]
        )
        self.optimizer = draw.choice(list(OPTIMIZERS))
        self.has_groups, self.is_sum = draw.random() < 0.5, draw.random() < 0.2

    def model_of(self, lines: list[str]) -> Program:
        return Model(self.kept(lines), self.seed)

    def kept(self, lines: list[str]) -> list[str]:
        """The lines that several steps can be compared on."""
        # What a micro-batch leaves in a weight to the next is not the mean of anything, and weights
        # that differ in their last bits may differ more in float16.
        return [line for line in lines if not re.search("no_grad|half|float16", line)]

    def batches_of(self, call: int, module: Program) -> list[Inputs]:
        """The micro-batches, first those of the first replica."""
        count = self.replicas * self.iterations * self.accumulation
        return [micro_batch(self.seed, call * 100 + number, module) for number in range(count)]

    def optimizer_of(self, module: nn.Module) -> torch.optim.Optimizer:
        groups: Any = module.parameters()
        if self.has_groups:
            flat = [p for p in module.parameters() if p.dim() <= 1]
            others = [p for p in module.parameters() if p.dim() > 1]
            groups = [{"params": flat, "weight_decay": 0.0}, {"params": others, "lr": 0.02}]
        return OPTIMIZERS[self.optimizer](groups)

    def eager(self, module: Program) -> Outcome:
        optimizer = self.optimizer_of(module)
        replicas = [module, *(copy.deepcopy(module) for _ in range(self.replicas - 1))]
        given: list[torch.Tensor] = []
        for call in range(CALLS):
            batches = self.batches_of(call, module)
            results: list[list[list[torch.Tensor]]] = [[] for _ in replicas]
            for iteration in range(self.iterations):
                for number, replica in enumerate(replicas):
                    with torch.no_grad():
                        pairs = zip(replica.parameters(), module.parameters(), strict=True)
                        for own, common in pairs:
                            if common.requires_grad:  # others are each replica's own
                                own.copy_(common)
                    replica.zero_grad()
                    first = (number * self.iterations + iteration) * self.accumulation
                    for inputs in batches[first : first + self.accumulation]:
                        values, loss = replica(*(t.clone() for t in inputs))
                        loss.backward()
                        _cut_gradients(replica)
                        results[number].append([t.detach() for t in (*values, loss)])
                self.reduce(replicas)
                if "clipped" in self.optimizer:
                    nn.utils.clip_grad_norm_(module.parameters(), LARGEST_NORM)
                optimizer.step()
            given += combined([one for some in results for one in some])
            self.next_rates(optimizer)
        return given, state_of(module)

    def reduce(self, replicas: list[Program]) -> None:
        """Bring the gradients of all replicas to the first one."""
        count = 1 if self.is_sum else self.accumulation * self.replicas
        for parameters in zip(*(replica.parameters() for replica in replicas), strict=True):
            grads = [p.grad for p in parameters if p.grad is not None]
            if grads:
                parameters[0].grad = torch.stack(grads).sum(0) / count

    def next_rates(self, optimizer: torch.optim.Optimizer) -> None:
        if self.optimizer == "combined":
            return  # which takes new numbers one step later
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    def options(self) -> poptorch.Options:
        options = quiet_options().deviceIterations(self.iterations)
        options.replicationFactor(self.replicas).broadcastBuffers(self.replicas == 1)
        options.outputMode(poptorch.OutputMode.All)
        options.Training.gradientAccumulation(self.accumulation)
        if self.is_sum:
            options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
        return options

    def check(self, executor: poptorch.PoplarExecutor) -> None:
        """Check how the program runs."""

    def given(self, module: Program) -> Outcome:
        optimizer = self.optimizer_of(module)
        executor = poptorch.trainingModel(module, self.options(), optimizer)
        results: list[torch.Tensor] = []
        try:
            for call in range(CALLS):
                values, loss = executor(*batch_of(self.batches_of(call, module)))
                results += [*values, loss]
                self.next_rates(optimizer)
                executor.setOptimizer(optimizer)
            self.check(executor)
            return results, state_of(module)
        finally:
            executor.destroy()


def _cut_gradients(module: nn.Module) -> None:
    """What a run has written has no gradient in the next one, as programs have it."""
    for value in module.state_dict(keep_vars=True).values():
        if not value.is_leaf:
            value.detach_()


class Block(Model):
    """A block with values of its own and a residual."""

    def __init__(self, lines: list[str], seed: int = 0) -> None:
        super().__init__(lines, seed)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = [value for value in self.results_of(inputs) if value.is_floating_point()]
        x, y, *others = inputs
        return x + self.scale * _like(x, given[-1]), y + self.scale * _like(y, given[0]), *others


def _like(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A small tensor of a shape, of values of another one."""
    value = torch.tanh(value).to(x.dtype)
    fits = value.dim() <= x.dim() and all(
        a in (1, b) for a, b in zip(value.shape[::-1], x.shape[::-1], strict=False)
    )
    return value.expand_as(x) if fits else value.mean().expand_as(x)


class Blocks(Program):
    """Repeated blocks, a tied weight and what is before and behind them.

    Args:
        lines: Those of a block.
        seed: Of what differs from program to program.
    """

    shared: torch.Tensor

    def __init__(self, lines: list[str], seed: int) -> None:
        super().__init__(lines)
        draw = random.Random(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block(lines, seed + k) for k in range(draw.choice([3, 4]))])
        self.register_buffer("shared", torch.linspace(0, 1, 4))
        is_tied, self.uses_twice = (draw.random() < 0.5 for _ in range(2))
        if is_tied:
            self.last.weight = self.first.weight
            self.blocks[1].q = self.blocks[0].q

    def forward(self, *inputs: torch.Tensor) -> Any:
        x, y, *others = inputs
        x = self.first(x)
        middle = x
        for block in self.blocks:
            x, y, *others = block(x, y * self.shared, *others)
        if self.uses_twice:
            x, y, *others = self.blocks[0](x + middle, y, *others)
        results = [self.last(x), y]
        return results, poptorch.identity_loss(loss_of(results, self.p), "none")


class FitIn(Training):
    """Steps of a model whose blocks are phases."""

    folder: str | None = None

    def model_of(self, lines: list[str]) -> Program:
        return Blocks(self.kept(lines), self.seed)

    def options(self) -> poptorch.Options:
        options = super().options()
        return options if self.folder is None else options.fit_in("64GiB", self.folder)

    def check(self, executor: poptorch.PoplarExecutor) -> None:
        assert executor.fitPlan().phases > 3

    def given(self, module: Program) -> Outcome:
        with (
            tempfile.TemporaryDirectory() as self.folder,
            mock.patch.object(_compilation, "may_be_whole", lambda *_: False),
        ):
            return super().given(module)


class Half(Training):
    """Steps of a model in float16.

    Args:
        seed: Of what differs from program to program.
    """

    stable, tolerance = 5e-3, 2e-2

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        if self.optimizer == "scaled":
            self.optimizer = "adamw"  # scaled gradients may be too large for float16

    def model_of(self, lines: list[str]) -> Program:
        return super().model_of(lines).half()


MODES: dict[str, Any] = {
    "inference": Inference, "training": Training, "fit_in": FitIn, "half": Half,
}  # fmt: skip


def types_differ(wanted: Outcome, given: Outcome) -> str:
    """Where the types of two outcomes differ, except that numbers of 64 bits become ones of 32."""
    narrow = {torch.int64: torch.int32, torch.float64: torch.float32}
    for index, (a, b) in enumerate(zip(wanted[0], given[0], strict=True)):
        if narrow.get(a.dtype, a.dtype) != b.dtype:
            return f"result {index} is {b.dtype}, wanted {a.dtype}"
    return ""


def compare(lines: list[str], seed: int, mode: str) -> str | None:
    """Compare a model; None: there is nothing to compare; an empty text: it agrees."""
    kind = MODES[mode](seed)
    try:
        wanted = kind.eager(kind.model_of(lines))
        exact = kind.eager(kind.model_of(lines).double())
    except Exception:
        return None
    if not all(bool(t.double().isfinite().all()) for t in (*wanted[0], *wanted[1].values())):
        return None
    if difference(wanted, exact, kind.stable):
        return None
    try:
        given = kind.given(kind.model_of(lines))
        return types_differ(wanted, given) or difference(wanted, given, kind.tolerance)
    except Exception as error:
        is_refused = any(text in str(error) for text in (*REFUSED, *REFUSED_IN_PHASES))
        return None if is_refused else f"{type(error).__name__}: {error}"


def program_of(seed: int, mode: str) -> list[str]:
    """The lines of a mode's program."""
    module = Block([], seed) if mode == "fit_in" else MODES[mode](seed).model_of([])
    return random_program(seed, module, line_with_weights)


def shortened(lines: list[str], seed: int, mode: str) -> list[str]:
    """The lines without those that a difference does not need."""
    for index in reversed(range(len(lines))):
        fewer = lines[:index] + lines[index + 1 :]
        if compare(fewer, seed, mode):
            lines = fewer
    return lines


def checked(count: int, first: int, mode: str) -> Iterator[tuple[int, str | None]]:
    """The outcome of each of some programs, by seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            yield seed, compare(program_of(seed, mode), seed, mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("mode", choices=MODES)
    arguments = parser.parse_args()
    mode = arguments.mode
    poptorch.setLogLevel("ERR")
    compared, differing = 0, 0
    for seed, outcome in checked(arguments.count, arguments.seed, mode):
        compared += outcome is not None
        if outcome:
            differing += 1
            lines = shortened(program_of(seed, mode), seed, mode)
            text = "\n    ".join(lines)
            print(f"seed {seed}: {vars(MODES[mode](seed))}", flush=True)
            print(f"{compare(lines, seed, mode)}\n    {text}", flush=True)
    print(f"{differing} of {compared} programs differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
