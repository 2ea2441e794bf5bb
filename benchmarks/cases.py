"""What is measured: one ``Case`` per row of the table. Knows no framework."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

NETWORKS = ("mlp", "cnn", "transformer", "decoder")
FRAMEWORKS = (
    "pando",
    "torch_eager",
    "torch_compile",
    "jax",
    "mlx",
    "library_sum",
    "lower_bound",
)
PEERS = ("torch_eager", "torch_compile", "jax", "mlx")


@dataclass(frozen=True)
class Case:
    """One program to measure; lower is better in every unit.

    ``family`` says which program it is, ``mode`` what is done with it:

    - mlp, cnn, transformer, decoder (GPT-2 style, 25 M parameters, bytes as tokens): ``train`` or
      ``infer``, with ``optimizer`` (``adam``: float32 moments, corrected for their bias;
      ``tutorial_adam``: float16 first moment, no correction; ``sgd``) and ``batch``
    - light, gelu, norm: one pass over ``megabytes`` (MiB) of float32
    - empty: one ``session.run`` of a near-empty program
    - compile (``what`` to compile in ``mode``), with ``layers`` for transformers
    - op: the single operation ``mode`` on about ``size`` elements
    - a family of ``benchmarks.models``, in the sizes named ``variant``: ``train`` or ``infer``

    ``front_end`` is what Pando runs the program through: ``popxl``, or ``poptorch`` for the peers'
    torch modules as they are; with ``fit_in`` in the memory that it names (``Options.fit_in``).
    ``form`` is the one form of ``torch.compile`` to build; without, the fastest of all is.
    ``accumulation`` is in how many micro-batches a training step takes its batch.
    """

    name: str
    family: str
    unit: str
    mode: str = ""
    optimizer: str = ""
    batch: int = 0
    megabytes: int = 0
    layers: int = 0
    size: int = 0
    variant: str = ""
    form: str = ""
    front_end: str = "popxl"
    fit_in: str = ""
    accumulation: int = 1

    @property
    def training(self) -> bool:
        return self.mode == "train"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _network(family: str, mode: str, batch: int, optimizer: str = "", layers: int = 0) -> Case:
    parts = [family, mode, *([optimizer] if optimizer else []), f"b{batch}"]
    return Case("/".join(parts), family, "us", mode, optimizer, batch, layers=layers)


def all_cases() -> list[Case]:
    """Every row, in the order of the table."""
    cases = [_network("mlp", "infer", 1)]
    for batch in (8, 32, 128):
        cases += [
            _network("mlp", "train", batch, "adam"),
            _network("mlp", "train", batch, "tutorial_adam"),
            _network("mlp", "train", batch, "sgd"),
            _network("mlp", "infer", batch),
        ]
    cases += [
        _network("cnn", "train", 32, "adam"),
        _network("cnn", "infer", 32),
        _network("transformer", "train", 4, "adam", layers=4),
        _network("decoder", "train", 4, "adam", layers=8),
    ]
    for family in ("light", "gelu", "norm"):
        cases += [
            Case(f"{family}/{size}MB", family, "us", "infer", megabytes=size)
            for size in (1, 16, 64)
        ]
    cases.append(Case("run/near_empty", "empty", "us"))
    cases += [
        Case("session/mlp_train", "compile", "ms", "session_mlp", "tutorial_adam", 8),
        Case("compile/mlp_train", "compile", "ms", "total_mlp", "tutorial_adam", 8),
    ]
    cases += [
        Case(f"session/transformer_{n}", "compile", "ms", "session_transformer", "", 4, layers=n)
        for n in (2, 12, 48)
    ]
    cases += [
        Case(f"compile/transformer_{n}", "compile", "ms", "total_transformer", "", 4, layers=n)
        for n in (2, 12, 48)
    ]
    return cases
