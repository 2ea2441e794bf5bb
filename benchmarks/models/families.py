"""The families of models, found by their name. Imports a framework only where asked for one."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.cases import Case, all_cases

if TYPE_CHECKING:
    import numpy as np

    from benchmarks.data import Batch


class Model(Protocol):
    """The sizes of one model. ``loss`` is ``cross_entropy`` or ``binary``, of means."""

    loss: str

    def weights(self) -> dict[str, Any]:
        """Name to initial value, float32; dense weights are (in, out), convolutions (out, in, kh,
        kw)."""

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """What one step is fed with."""


def model_sizes(family: str) -> dict[str, Any]:
    """The family's models by variant; those named ``tiny...`` are for tests."""
    sizes: dict[str, Any] = importlib.import_module(f"benchmarks.models.{family}").SIZES
    return sizes


def model(case: Case) -> Any:
    return model_sizes(case.family)[case.variant]


def on(framework: str, case: Case) -> ModuleType:
    """The module that holds the family's network in ``framework``: popxl, torch or jax."""
    return importlib.import_module(f"benchmarks.models.{case.family}.on_{framework}")


# Rows that are in the table, too.
SHARED = ("mlp/train/adam/b32", "mlp/infer/b32", "cnn/train/adam/b32", "cnn/infer/b32")


# Training rows of ``torch`` that are measured with ``Options.fit_in``, too, and the memory that it
# names: more than the whole program needs, or less, so that it computes products again.
FITTED = {
    "resnet_50/train/b4/fit_in": "64GiB",
    "bert_base/train/b4/fit_in": "64GiB",
    "bert_base/train/b4/fit_in_1925MiB": "1925MiB",
}


def torch_cases() -> list[Case]:
    """Every row of ``python -m benchmarks torch``: torch modules through poptorch."""
    small = ("mlp/train/adam/b8", "mlp/train/adam/b128", "mlp/infer/b1")
    rows = [replace(case, unit="ms") for case in all_cases() if case.name in small]
    rows += [case for case in model_cases() if case.family not in ("generation", "recommender")]
    rows += [
        _case("bert", "small_dropout", "train", 4, "adamw"),
        replace(
            _case("gpt2", "small", "train", 8, "adamw"),
            name="gpt2_small/train/b8/accumulate4",
            accumulation=4,
        ),
    ]
    empty = [case for case in all_cases() if case.family == "empty"]
    by_name = {case.name: case for case in rows}
    fitted = [
        replace(by_name[name.rpartition("/")[0]], name=name, fit_in=memory)
        for name, memory in FITTED.items()
    ]
    return [replace(case, front_end="poptorch") for case in (*empty, *rows, *fitted)]


def _case(family: str, variant: str, mode: str, batch: int, optimizer: str = "") -> Case:
    name = f"{family}_{variant}/{mode}/b{batch}"
    return Case(name, family, "ms", mode, optimizer, batch, variant=variant)


def model_cases() -> list[Case]:
    """Every row of ``python -m benchmarks models``: networks of the table, then models."""
    shared = [replace(case, unit="ms") for case in all_cases() if case.name in SHARED]
    return [
        *shared,
        _case("resnet", "18", "train", 32, "momentum"),
        _case("resnet", "18", "infer", 32),
        _case("resnet", "18", "infer", 1),
        _case("resnet", "50", "train", 4, "momentum"),
        _case("resnet", "50", "infer", 1),
        _case("bert", "small", "train", 4, "adamw"),
        _case("bert", "small", "infer", 4),
        _case("bert", "base", "train", 4, "adamw"),
        _case("bert", "base", "infer", 1),
        _case("gpt2", "small", "train", 2, "adamw"),
        replace(_case("generation", "small", "infer", 1), name="gpt2_small/generate/b1"),
        _case("lstm", "2x512", "train", 32, "adam"),
        _case("lstm", "2x512", "infer", 32),
        _case("recommender", "8x100k", "train", 4096, "sgd"),
        _case("graph", "50k", "train", 1, "adam"),
        _case("graph", "50k", "infer", 1),
    ]
