"""Random options of executors, beside loops of eager torch that do what the options say.

As a program (`python -m tests.python.poptorch.random_options COUNT SEED`) it prints the options
with which results or weights differ.
"""

from __future__ import annotations

import random
import sys
import tempfile
from typing import Any

import torch

import poptorch
from poptorch import MeanReductionStrategy, OutputMode, ReductionType, TensorLocationSettings
from tests.python.poptorch.expected_sessions import OPTIMIZERS, new_optimizer
from tests.python.poptorch.staged_networks import BATCH, STRATEGIES, Network, data
from tests.python.random_sequences import main

RUNS = 3
RATE = 0.01
STAGES = 3
MODES = [OutputMode.All, OutputMode.Final, OutputMode.Sum, OutputMode.EveryN]
Results = list[torch.Tensor]


class Drawn:
    """The options of a case, and what else was drawn for it.

    Args:
        seed: Of everything.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.trains = draw.random() < 0.75
        self.strategy = draw.choice([None, None, *STRATEGIES])
        least = 1 if self.strategy is None else 2 * STAGES - 1
        self.accumulation = draw.choice([least, least + 1, least + 2]) if self.trains else 1
        self.iterations = draw.choice([1, 1, 2, 3] if self.trains else [least, least + 1])
        self.replicas = draw.choice([1, 1, 2, 4])
        self.group = draw.choice([g for g in (1, 2, 4) if self.replicas % g == 0])
        self.mode = draw.choice(
            [OutputMode.All, OutputMode.Final, OutputMode.Sum, OutputMode.EveryN]
        )
        self.period = draw.choice([n for n in (1, 2, 3, 4) if self.steps % n == 0])
        self.reduction = draw.choice([ReductionType.Mean, ReductionType.Sum])
        self.means = draw.choice([MeanReductionStrategy.Running, MeanReductionStrategy.Post])
        self.kind = draw.choice(list(OPTIMIZERS))
        self.is_own = draw.random() < 0.5
        self.loss_scaling = draw.choice([1.0, 1.0, 8.0, 128.0]) if self.is_own else 1.0
        self.is_partly_frozen = draw.random() < 0.2
        self.is_cached = draw.random() < 0.3
        names = ("Activation", "Weight", "Optimizer", "Accumulator")
        # For each, whether it is on the chip and whether replicas share it out.
        self.locations = {
            name: (draw.random() < 0.5, draw.random() < 0.5)
            for name in names
            if draw.random() < 0.4
        }

    @property
    def steps(self) -> int:
        """Micro-batches of a replica in a run."""
        return self.iterations * self.accumulation

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())

    def options(self, folder: str) -> poptorch.Options:
        options = poptorch.Options().deviceIterations(self.iterations).autoRoundNumIPUs(True)
        options.replicationFactor(self.replicas).showCompilationProgressBar(False)
        if self.group > 1:
            options.inputReplicaGrouping(self.group, poptorch.CommGroupType.Consecutive)
        if self.mode == OutputMode.EveryN:
            options.outputMode(self.mode, self.period)
        else:
            options.outputMode(self.mode)
        if self.strategy is not None:
            options.setExecutionStrategy(STRATEGIES[self.strategy]())
        if self.is_cached:
            options.enableExecutableCaching(folder)
        training = options.Training.gradientAccumulation(self.accumulation)
        training.accumulationAndReplicationReductionType(self.reduction)
        if self.reduction == ReductionType.Mean:
            training.setMeanAccumulationAndReplicationReductionStrategy(self.means)
        for name, (on_chip, sharded) in self.locations.items():
            location = TensorLocationSettings().useOnChipStorage(on_chip)
            location.minElementsForOffChip(0).minElementsForReplicatedTensorSharding(2)
            location.useReplicatedTensorSharding(sharded)
            getattr(options.TensorLocations, f"set{name}Location")(location)
        return options

    def network(self, annotated: bool) -> Network:
        network = Network(annotated)
        network.middle.requires_grad_(not self.is_partly_frozen)
        return network

    def inputs(self, run: int) -> tuple[torch.Tensor, torch.Tensor]:
        return data(BATCH * self.steps * (self.replicas // self.group), run)

    def given(self, folder: str) -> tuple[Results, dict[str, torch.Tensor]]:
        """The results of all runs, and the weights after them."""
        network = self.network(annotated=self.strategy is not None)
        options = self.options(folder)
        if not self.trains:
            executor = poptorch.inferenceModel(network, options)
            return [executor(self.inputs(run)[0]) for run in range(RUNS)], {}
        package: Any = poptorch.optim if self.is_own else torch.optim
        parameters = [p for p in network.parameters() if p.requires_grad]
        optimizer = new_optimizer(package, self.kind, parameters, RATE)
        if self.is_own:
            for group in optimizer.param_groups:
                group["loss_scaling"] = self.loss_scaling
        executor = poptorch.trainingModel(network, options, optimizer)
        results = [part for run in range(RUNS) for part in executor(*self.inputs(run))]
        state = {name: value.clone() for name, value in network.state_dict().items()}
        executor.destroy()
        return results, state

    def wanted(self) -> tuple[Results, dict[str, torch.Tensor]]:
        """The same by eager torch."""
        network = self.network(annotated=False)
        parameters = [p for p in network.parameters() if p.requires_grad]
        optimizer = new_optimizer(torch.optim, self.kind, parameters, RATE)
        results: Results = []
        for run in range(RUNS):
            parts = [self._of_replicas(tensor) for tensor in self.inputs(run)]
            if not self.trains:
                results.append(self._returned([[network(x) for x in steps] for steps in parts[0]]))
                continue
            steps = self._trained(network, optimizer, *parts)
            for number in range(2):
                results.append(self._returned([[one[number] for one in r] for r in steps]))
        return results, dict(network.state_dict()) if self.trains else {}

    def _of_replicas(self, tensor: torch.Tensor) -> list[list[torch.Tensor]]:
        """The micro-batches of each replica, in order."""
        groups = tensor.chunk(self.replicas // self.group)
        return [list(part.split(BATCH)) for part in groups for _ in range(self.group)]

    def _trained(self, network: Any, optimizer: Any, xs: Any, targets: Any) -> list[list[Any]]:
        """What each step of each replica returns."""
        is_mean = self.reduction == ReductionType.Mean
        share = 1 / (self.accumulation * self.replicas) if is_mean else 1.0
        results: list[list[Any]] = [[] for _ in range(self.replicas)]
        for iteration in range(self.iterations):
            optimizer.zero_grad()
            for replica in range(self.replicas):
                for part in range(self.accumulation):
                    step = iteration * self.accumulation + part
                    y, loss = network(xs[replica][step], targets[replica][step])
                    (loss * share).backward()
                    results[replica].append((y.detach(), loss.detach()))
            optimizer.step()
        return results

    def _returned(self, results: list[list[torch.Tensor]]) -> torch.Tensor:
        """What the output mode leaves of the results of each step of each replica."""
        kept = []
        for steps in results:
            if self.mode == OutputMode.Sum:
                kept.append(torch.stack(steps).sum(0))
            elif self.mode == OutputMode.Final:
                kept.append(steps[-1])
            else:
                period = self.period if self.mode == OutputMode.EveryN else 1
                kept += steps[period - 1 :: period]
        if kept[0].ndim:
            return torch.cat(kept)
        return torch.stack(kept) if len(kept) > 1 else kept[0]


def outcome_of(seed: int) -> str:
    """Run with random options.

    Args:
        seed: Of the options.

    Returns:
        What differs, with the options; empty if nothing does.
    """
    drawn = Drawn(seed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            # What is cached is loaded the second time.
            for _ in range(1 + drawn.is_cached):
                given, wanted = drawn.given(folder), drawn.wanted()
                torch.testing.assert_close(given, wanted, rtol=2e-3, atol=2e-4)
    except Exception as error:
        return f"{type(error).__name__}: {error}; with {drawn}"
    return ""


if __name__ == "__main__":
    sys.exit(main(__doc__, outcome_of))
