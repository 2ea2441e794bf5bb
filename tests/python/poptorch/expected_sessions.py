"""What is expected of a wrapped module: what the host and each device have, in eager torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

RATE = 0.02
State = dict[str, torch.Tensor]
OptimizerState = dict[int, Any]
Batch = tuple[torch.Tensor, torch.Tensor]


class Block(nn.Module):
    """Has weights, and buffers that training writes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(5, 5), nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.norm(self.linear(x)))


class Network(nn.Module):
    """Repeated blocks, and a loss where there are targets."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 5), nn.Linear(5, 2)
        self.blocks = nn.ModuleList([Block(), Block(), Block()])

    def forward(self, x: torch.Tensor, target: torch.Tensor | None = None) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        y = self.last(x)
        return y if target is None else (y, F.mse_loss(y, target))


def new_network(seed: int) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Network()


def copy_of(state: State) -> State:
    return {name: value.detach().clone() for name, value in state.items()}


# By class, in torch and in poptorch: numbers that keep what rounding leaves from becoming a step.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9},
    "Adam": {"eps": 1e-2, "weight_decay": 0.1},
    "AdamW": {"eps": 1e-2},
    "RMSprop": {"eps": 0.3, "momentum": 0.5},
}


def new_optimizer(package: Any, kind: str, parameters: Any, rate: float) -> torch.optim.Optimizer:
    made: torch.optim.Optimizer = getattr(package, kind)(parameters, lr=rate, **OPTIMIZERS[kind])
    return made


class ExpectedTrainer:
    """The training executor: what its replicas have, and what the optimizer has set.

    They have the same weights, but each its own buffers, of which the first one's are read.
    """

    def __init__(self, network: Network, kind: str, replicas: int) -> None:
        self.network = network.train()
        self.others = [copy.deepcopy(network) for _ in range(replicas - 1)]
        self.optimizer = new_optimizer(torch.optim, kind, network.parameters(), RATE)
        self.is_compiled = self.is_attached = False
        # Whether the host has older values.
        self.is_dirty = False
        # A state of the optimizer that was loaded, and goes to the device before the next run.
        self.loaded: OptimizerState | None = None

    @property
    def rate(self) -> float:
        rate: float = self.optimizer.param_groups[0]["lr"]
        return rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.optimizer.param_groups[0]["lr"] = rate

    @property
    def state(self) -> OptimizerState:
        """That of the optimizer, as a copy."""
        return copy.deepcopy(self.optimizer.state_dict()["state"])

    @state.setter
    def state(self, state: OptimizerState) -> None:
        whole = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**whole, "state": copy.deepcopy(state)})

    def take_loaded(self) -> None:
        if self.loaded is not None:
            self.state, self.loaded = self.loaded, None

    @property
    def values(self) -> list[State]:
        """Weights and buffers of all replicas, as copies."""
        return [copy_of(one.state_dict()) for one in (self.network, *self.others)]

    @values.setter
    def values(self, values: list[State]) -> None:
        for one, state in zip((self.network, *self.others), values, strict=True):
            one.load_state_dict(state)

    def run(self, batches: list[list[list[Batch]]]) -> list[torch.Tensor]:
        """One update for each list of micro-batches, by replica; gives what the last ones give."""
        self.take_loaded()
        self.is_dirty = True
        for parts in zip(*batches, strict=True):
            results = [self._gradients(number, some) for number, some in enumerate(parts)]
            self.optimizer.step()
            for p, *others in self._parameters():
                for other in others:
                    other.data.copy_(p)
        if len(results) == 1:
            return results[0]
        return [torch.cat([y for y, _ in results]), torch.stack([loss for _, loss in results])]

    def _parameters(self) -> Iterator[tuple[nn.Parameter, ...]]:
        return zip(*(one.parameters() for one in (self.network, *self.others)), strict=True)

    def _gradients(self, replica: int, parts: list[Batch]) -> list[torch.Tensor]:
        """Adds those of a replica to those of the first one."""
        network = (self.network, *self.others)[replica]
        network.zero_grad()
        for x, target in parts:
            y, loss = network(x, target)
            (loss / len(parts) / (1 + len(self.others))).backward()
        if replica > 0:
            for parameters in self._parameters():
                first, own = parameters[0].grad, parameters[replica].grad
                assert first is not None
                assert own is not None
                first += own
        return [y.detach(), loss.detach()]


class ExpectedRunner:
    """An inference executor."""

    def __init__(self) -> None:
        self.network = Network().eval()
        self.is_compiled = self.is_attached = False
        self.version = -1


class Expected:
    """What the host has, and what happens between it and the devices (the guide, "Weights")."""

    def __init__(self, network: Network, kind: str, replicas: int) -> None:
        self.host = copy_of(network.state_dict())
        self.version = 0  # of what training brought to the host
        self.trainer = ExpectedTrainer(copy.deepcopy(network), kind, replicas)
        self.runners: list[ExpectedRunner] = []

    def sync(self) -> None:
        if self.trainer.is_dirty:
            self.read_trainer()

    def read_trainer(self) -> None:
        self.host = copy_of(self.trainer.network.state_dict())
        self.version += 1
        self.trainer.is_dirty = False

    def upload_to_trainer(self) -> None:
        self.trainer.is_dirty = False
        self.trainer.values = [self.host] * (1 + len(self.trainer.others))

    def attach_trainer(self) -> None:
        if not self.trainer.is_attached:
            self.trainer.is_attached = True
            self.upload_to_trainer()

    def detach_trainer(self) -> None:
        self.sync()
        self.trainer.is_attached = False

    def upload_to_runner(self, runner: ExpectedRunner) -> None:
        self.sync()
        runner.network.load_state_dict(self.host)
        runner.version = self.version

    def attach_runner(self, runner: ExpectedRunner) -> None:
        if not runner.is_attached:
            runner.is_attached = True
            self.upload_to_runner(runner)

    def prepare_runner(self, runner: ExpectedRunner) -> None:
        """What comes before a run."""
        runner.is_compiled = True
        self.attach_runner(runner)
        self.sync()
        if runner.version != self.version:
            self.upload_to_runner(runner)
