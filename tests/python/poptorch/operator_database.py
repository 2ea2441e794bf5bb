"""Runs samples of torch's own operator database through poptorch and compares with eager torch.

As a program (`python -m tests.python.poptorch.operator_database --help`) it prints each operator
that is not whole, with its first reason, and the share of operators that are.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib
import torch
from torch.testing._internal.common_methods_invocations import op_db

import poptorch

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "bool": torch.bool,
}
# Relative to the largest magnitude of the expected result.
TOLERANCES = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 3e-5}
NAMES = Path(__file__).with_name("operator_names.txt")
EXCEPTIONS = Path(__file__).with_name("operator_exceptions.toml")
_HOST = {
    torch.int64: torch.int32,
    torch.float64: torch.float32,
    torch.bfloat16: torch.float32,
}


@dataclass
class Report:
    """What became of the samples of one operator."""

    name: str
    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not self.failures


class Sample(torch.nn.Module):
    """A call of an operator with its tensors as inputs of the module, or as its parameters."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op = op
        # Samples name the device that they are for.
        kwargs = {key: value for key, value in sample.kwargs.items() if key != "device"}
        self.structure = (sample.input, tuple(sample.args), kwargs)
        self.tensors: list[torch.Tensor] = []
        self._collect(self.structure)
        self.weights = torch.nn.ParameterList()
        self.cotangents: list[torch.Tensor | None] = []

    def _collect(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._collect(item)
        elif isinstance(value, dict):
            for item in value.values():
                self._collect(item)

    def _filled(self, value: Any, tensors: Iterator[torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return next(tensors)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._filled(item, tensors) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(self._filled(item, tensors) for item in value)
        if isinstance(value, dict):
            return {key: self._filled(item, tensors) for key, item in value.items()}
        return value

    def call(self, tensors: list[torch.Tensor]) -> Any:
        first, args, kwargs = self._filled(self.structure, iter(tensors))
        return self.op(first, *args, **kwargs)

    def forward(self, *tensors: torch.Tensor) -> Any:
        if len(self.weights):
            return self._loss(tensors)
        return self.call(list(tensors))

    def _loss(self, others: tuple[torch.Tensor, ...]) -> torch.Tensor:
        rest, weights = iter(others), iter(self.weights)
        tensors = [
            next(weights).clone() if t.is_floating_point() else next(rest) for t in self.tensors
        ]
        total = None
        for result, cotangent in zip(flat(self.call(tensors)), self.cotangents, strict=True):
            if cotangent is not None:
                part = (result.float() * cotangent.to(result.device)).sum()
                total = part if total is None else total + part
        assert total is not None
        return poptorch.identity_loss(total, "sum") if poptorch.isRunningOnIpu() else total


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    return []


def difference(given: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> str:
    """What is wrong with a result; empty: nothing."""
    wanted = wanted.detach()
    kind = _HOST.get(wanted.dtype, wanted.dtype)
    if given.dtype != kind:
        return f"dtype {given.dtype}, wanted {kind}"
    if given.shape != wanted.shape:
        return f"shape {tuple(given.shape)}, wanted {tuple(wanted.shape)}"
    if tolerance == float("inf"):
        return ""
    if not wanted.is_floating_point():
        wrong = int((given != wanted.to(kind)).sum())
        return f"{wrong} of {wanted.numel()} elements differ" if wrong else ""
    a, b = given.double(), wanted.double()
    finite = b[torch.isfinite(b)]
    scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
    if torch.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
        return ""
    return f"largest difference {float((a - b).abs().nan_to_num().max()):.3g}"


# Random numbers are never those of torch's generator: their shape and dtype count, and other tests
# check how they are distributed.
RANDOM_NAMES = """
bernoulli empty empty_like exponential geometric log_normal multinomial new_empty normal
rand_like randint randint_like randn randn_like uniform empty_permuted empty_strided
new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
nn.functional.dropout3d nn.functional.feature_alpha_dropout nn.functional.rrelu
"""
RANDOM = frozenset(RANDOM_NAMES.split())


def draws_numbers(module: Sample) -> bool:
    """Whether a call gives other results the second time."""
    first, second = (flat(module.call([t.clone() for t in module.tensors])) for _ in range(2))
    return not all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second, strict=True)
    )


def exceptions() -> dict[tuple[str, str], str]:
    """Why operators are not whole, by name with variant and dtype."""
    entries = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))["exception"]
    return {(e["name"], dtype): e["reason"] for e in entries for dtype in e["dtypes"]}


def failing(names: list[str], dtype: str, samples: int, gradients: bool) -> list[str]:
    """The failures, outside of the exceptions, of operators with a few samples each."""
    known = exceptions()
    reports = [
        run_operator(info, DTYPES[dtype], samples, gradients)
        for info in supported_operators(names)
        if DTYPES[dtype] in info.dtypes
    ]
    return [
        f"{report.name}: {text}"
        for report in reports
        for text in report.failures
        if (report.name, dtype) not in known
    ]


def check_forward(op_name: str, op: Any, sample: Any, dtype: torch.dtype) -> str:
    """Run one sample in inference; empty: it agrees."""
    module = Sample(op, sample)
    module.eval()
    wanted = flat(module.call([t.clone() for t in module.tensors]))
    if any(t.numel() == 0 or t.is_complex() for t in wanted):
        return ""
    given = flat(poptorch.inferenceModel(module)(*(t.clone() for t in module.tensors)))
    if len(given) != len(wanted):
        return f"{len(given)} results, wanted {len(wanted)}"
    tolerance = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    if op_name in RANDOM or draws_numbers(module):
        tolerance = float("inf")
    problems = (difference(a, b, tolerance) for a, b in zip(given, wanted, strict=True))
    return next((f"result: {text}" for text in problems if text), "")


def check_gradient(op_name: str, op: Any, sample: Any, dtype: torch.dtype) -> str:
    """Compare the step of plain SGD that one sample makes; empty: it agrees."""
    module = Sample(op, sample)
    if op_name in RANDOM or draws_numbers(module):
        return ""
    results = flat(module.call(module.tensors))
    if any(t.numel() == 0 for t in results):
        return ""
    generator = torch.Generator().manual_seed(1)
    module.cotangents = [
        torch.randn(r.shape, generator=generator)
        if r.is_floating_point() and (r.requires_grad or r.grad_fn)
        else None
        for r in results
    ]
    if not any(c is not None for c in module.cotangents):
        return ""
    module.weights = torch.nn.ParameterList(
        torch.nn.Parameter(t.detach().clone(), t.requires_grad)
        for t in module.tensors
        if t.is_floating_point()
    )
    others = [t for t in module.tensors if not t.is_floating_point()]
    loss = module(*others)
    loss.backward()
    wanted = [None if w.grad is None else w.grad.clone() for w in module.weights]
    before = [w.detach().clone() for w in module.weights]
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    model = poptorch.trainingModel(module, optimizer=optimizer)
    model(*others)
    model.destroy()
    tolerance = 4 * TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    for start, weight, gradient in zip(before, module.weights, wanted, strict=True):
        expected = start if gradient is None else start - gradient
        if text := difference(weight.detach(), expected, tolerance):
            return f"gradient: {text}"
    return ""


def is_supported(sample: Any) -> str:
    """Why a sample is none that the specification owes; empty: it is."""
    tensors = Sample(None, sample).tensors
    if any(t.numel() == 0 for t in tensors):
        return "empty tensor"
    if any(t.is_complex() or t.layout is not torch.strided for t in tensors):
        return "complex or sparse"
    if any(t.dtype is torch.float64 for t in tensors):
        return "float64"
    return ""


def run_operator(info: Any, dtype: torch.dtype, samples: int, gradients: bool) -> Report:
    """Run the first samples of one operator."""
    report = Report(info.name + (f".{info.variant_test_name}" if info.variant_test_name else ""))
    wants_gradient = gradients and dtype.is_floating_point and info.supports_autograd
    check = check_gradient if wants_gradient else check_forward
    torch.manual_seed(0)
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=wants_gradient)):
        if number >= samples:
            break
        if is_supported(sample):
            report.skipped += 1
            continue
        try:
            text = check(info.name, info.op, sample, dtype)
        except Exception as error:  # every kind of failure is a line of the report
            text = (
                f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"
            )
        if text:
            shapes = [tuple(t.shape) for t in Sample(None, sample).tensors]
            report.failures.append(f"{text} [{shapes} {sample.kwargs or ''}]")
        else:
            report.passed += 1
    return report


def supported_operators(names: list[str] | None = None) -> list[Any]:
    """The entries of the database for names, by default those that are owed."""
    wanted = set(names or NAMES.read_text(encoding="utf-8").split())
    return [info for info in op_db if info.name in wanted or info.aten_name in wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--names", default="")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    infos = supported_operators(given.names.split(",") if given.names else None)
    rows: list[dict[str, Any]] = []
    known = exceptions()
    for kind in given.dtypes.split(","):
        dtype = DTYPES[kind]
        for info in infos:
            if dtype not in info.dtypes:
                continue
            report = run_operator(info, dtype, given.samples, given.gradients)
            rows.append({"dtype": kind, **vars(report), "whole": report.whole})
            if not report.whole:
                reason = known.get((report.name, kind), "")
                print(
                    f"{kind} {report.name}: {len(report.failures)} of "
                    f"{len(report.failures) + report.passed} fail: {report.failures[0]}",
                    reason and f"(known: {reason})",
                )
                sys.stdout.flush()
    whole = Counter(row["dtype"] for row in rows if row["whole"])
    every = Counter(row["dtype"] for row in rows)
    for kind in every:
        print(
            f"{kind}: {whole[kind]} of {every[kind]} operators whole "
            f"({100 * whole[kind] / every[kind]:.1f} %)"
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if whole == every else 1


if __name__ == "__main__":
    sys.exit(main())
