"""Updates of weights on several virtual devices and replicas: the numbers of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from poptorch import optim
from poptorch._lower.loss_scaling import AutomaticLossScaling
from tests.python.poptorch.update_program import UpdateProgram

STEPS = 8
SHAPES = ((4, 3), (5,), (2, 2))


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]


def gradients(replicas: int | None = None) -> list[list[np.ndarray]]:
    random = np.random.default_rng(1)
    lead = () if replicas is None else (replicas,)
    return [[random.normal(size=(*lead, *shape)) for shape in SHAPES] for _ in range(STEPS)]


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (optim.SGD, {"lr": 0.1}),
    "momentum": (
        optim.SGD,
        {
            "lr": 0.1,
            "momentum": 0.9,
            "weight_decay": 0.1,
            "velocity_scaling": 4.0,
            "use_combined_accum": True,
        },
    ),
    "adam": (optim.Adam, {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    "adamw": (optim.AdamW, {"lr": 0.1, "weight_decay": 0.1}),
    "lamb": (optim.LAMB, {"lr": 0.1, "max_weight_norm": 3.0}),
    "rmsprop": (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_on_several_devices(kind: str) -> None:
    make, arguments = KINDS[kind]
    arguments = {**arguments, "loss_scaling": 8.0}
    if kind in ("sgd", "momentum", "adam", "adamw"):
        arguments["max_grad_norm"] = 0.5
    one = UpdateProgram(make(parameters(), **arguments))
    several = UpdateProgram(make(parameters(), **arguments), devices=[1, 0, 2])
    for step in gradients():
        for program in (one, several):
            program.run(step)
    for found, wanted in zip(several.weights(), one.weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_loss_scale_of_several_devices() -> None:
    optimizer = optim.SGD(parameters(torch.float16), lr=0.1)
    program = UpdateProgram(optimizer, AutomaticLossScaling(), devices=[1, 0, 2])
    program.run(gradients()[0])
    assert program.value("lossScaleUpdateFactor") == 2
    large = [np.full(shape, 3e4 if i == 2 else 0.0) for i, shape in enumerate(SHAPES)]
    program.run(large)
    assert program.value("lossScaleUpdateFactor") == 1


@pytest.mark.parametrize("kind", ["momentum", "adam", "adamw"])
def test_norm_is_over_all_replicas_of_a_weight(kind: str) -> None:
    """The first weight differs from replica to replica, so the norm has its gradients from all."""
    make, arguments = KINDS[kind]
    arguments = {**arguments, "max_grad_norm": 0.5}
    replicas = 2
    shared = parameters()
    own = torch.nn.Parameter(torch.stack([shared[0], 2 * shared[0]]).detach())
    program = UpdateProgram(
        make([own, *shared[1:]], **arguments), replicas=replicas, per_replica=["p0"]
    )
    # One device with the values of both replicas as weights of their own.
    both = UpdateProgram(make([own[0].detach(), own[1].detach(), *shared[1:]], **arguments))
    for step in gradients(replicas):
        program.run(step)
        both.run([step[0][0], step[0][1], step[1].mean(0), step[2].mean(0)])
    found, wanted = program.weights(), both.weights()
    np.testing.assert_allclose(found[0], np.stack(wanted[:2]), rtol=1e-5, atol=1e-6)
    for one, other in zip(found[1:], wanted[2:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    key = "Accl___p0" if kind == "momentum" else "Accl1___p0"
    assert program.value(key).shape == (replicas, *SHAPES[0])
