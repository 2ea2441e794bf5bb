"""Runs samples of torch's own operator database through poptorch and compares with eager torch.

As a program (`python -m tests.python.poptorch.operator_database --help`) it prints each operator
that is not whole, with its first reason, and the share of operators that are.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db

import poptorch
from tests.python.poptorch.operator_exceptions import exceptions, unknown_failures

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
_HOST = {torch.int64: torch.int32, torch.float64: torch.float32}
# What the specification refuses, in its words. A sample that is refused so neither agrees nor
# fails; an operator that has no other samples is not counted.
_SVD = "Unsupported ops found in compiled model: [aten::_linalg_svd"
_DYNAMIC = "gives a tensor of a dynamic shape"
REFUSALS = {
    "__getitem__": _DYNAMIC,
    "bincount": _DYNAMIC,
    "repeat_interleave": _DYNAMIC,
    "tensor_split": _DYNAMIC,
    # Matrix 2-norms and nuclear norms.
    "linalg.matrix_norm": _SVD,
    "linalg.norm": _SVD,
    "norm": _SVD,
    "nn.functional.one_hot": "OneHot num classes must be specified and must be constant.",
    "to": "Illegal move to CPU",
}
# Where elements are equal, their order is free: what is found at the places counts.
ORDERING = {"argsort", "mode", "sort", "topk"}


def _options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


@dataclass
class Report:
    """What became of the samples of one operator."""

    name: str
    passed: int = 0
    refused: int = 0
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

    def _loss(self, others: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The loss, and the results that it is made of."""
        rest, weights = iter(others), iter(self.weights)
        tensors = [
            next(weights).clone() if t.is_floating_point() else next(rest) for t in self.tensors
        ]
        total = None
        results = flat(self.call(tensors))
        for result, cotangent in zip(results, self.cotangents, strict=True):
            if cotangent is not None:
                part = (result.float() * cotangent.to(result.device)).sum()
                total = part if total is None else total + part
        assert total is not None
        if poptorch.isRunningOnIpu():
            total = poptorch.identity_loss(total, "sum")
        return (total, *results)


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    # What torch.equal gives is a tensor in a program.
    return [torch.tensor(value)] if isinstance(value, bool) else []


def difference(given: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> str:
    """What is wrong with a result; empty: nothing."""
    wanted = wanted.detach()
    kind = _HOST.get(wanted.dtype, wanted.dtype)
    # Inputs of bfloat16 are float32 in the program; weights and tensors made there stay bfloat16.
    if given.dtype != kind and (given.dtype, kind) != (torch.float32, torch.bfloat16):
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
    """Whether a call gives other results with other seeds."""
    set_seed = torch.manual_seed
    results = []
    for seed in range(4):
        # The database sets a seed of its own around calls that draw numbers.
        with (
            torch.random.fork_rng(),
            mock.patch.object(
                torch, "manual_seed", lambda given, seed=seed: set_seed(given + seed)
            ),
        ):
            torch.manual_seed(0)
            results.append(flat(module.call([t.clone() for t in module.tensors])))
    return not all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        for other in results[1:]
        for a, b in zip(results[0], other, strict=True)
    )


def at_places(results: list[torch.Tensor], op_name: str, sample: Any) -> list[torch.Tensor]:
    """Results with what is found at places in order instead of the places."""
    if sample.input.dim() == 0 or sample.kwargs.get("stable"):
        return results
    position = 1 if op_name == "topk" else 0
    given = sample.args[position] if len(sample.args) > position else -1
    dim = sample.kwargs.get("dim", given)
    places = results[-1].long()
    if places.dim() < sample.input.dim():
        places = places.unsqueeze(dim)
    return [*results[:-1], sample.input.detach().gather(dim, places)]


def failing(
    names: list[str], dtype: str, samples: int, gradients: bool, tied: bool = False
) -> list[str]:
    """The failures, outside of the exceptions, of operators with a few samples each."""
    known, kind = exceptions(), "tied" if tied else dtype
    reports = [
        run_operator(info, DTYPES[dtype], samples, gradients, tied)
        for info in supported_operators(names)
        if DTYPES[dtype] in info.dtypes
    ]
    return [
        f"{report.name}: {text}"
        for report in reports
        for text in unknown_failures(report.failures, known.get((report.name, kind)))
    ]


def with_equal_elements(sample: Any) -> Any:
    """A sample of whole numbers from -2 to 2: equal elements, zeros and ends of ranges."""

    def rounded(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or not t.is_floating_point():
            return t
        return (t.detach() / 2).round().clamp(-2, 2).requires_grad_(t.requires_grad)

    return sample.transform(rounded)


HALVES = (torch.float16, torch.bfloat16)


def in_float32(sample: Any) -> Any:
    """A sample of half precision with the same numbers in float32."""
    return sample.transform(
        lambda t: (
            t.detach().float().requires_grad_(t.requires_grad)
            if isinstance(t, torch.Tensor) and t.dtype in HALVES
            else torch.float32
            if t in HALVES
            else t
        )
    )


def first_difference(
    given: list[torch.Tensor], wanted: list[torch.Tensor], tolerance: float
) -> str:
    """What is wrong with the first result that differs; empty: nothing."""
    problems = (difference(a, b, tolerance) for a, b in zip(given, wanted, strict=True))
    return next((text for text in problems if text), "")


def judged(
    given: list[torch.Tensor],
    wanted: list[torch.Tensor],
    exact: list[torch.Tensor],
    tolerance: float,
) -> str:
    """What is wrong where torch in half precision, which rounds more often than a program and
    overflows in between, may be further off than the program: float32 judges each element.
    """
    best = []
    for own, half, other in zip(given, wanted, exact, strict=True):
        scale = max(1.0, float(half.double().nan_to_num(0, 0, 0).abs().max()))
        close = torch.isclose(
            own.double(), half.double(), tolerance, tolerance * scale, equal_nan=True
        )
        best.append(torch.where(close, own.to(half.dtype), other.detach().to(half.dtype)))
    return first_difference(given, best, tolerance)


def check_forward(op_name: str, op: Any, sample: Any, dtype: torch.dtype) -> str:
    """Run one sample in inference; empty: it agrees."""
    module = Sample(op, sample)
    module.eval()
    wanted = flat(module.call([t.clone() for t in module.tensors]))
    if any(t.numel() == 0 or t.is_complex() for t in wanted):
        return ""
    given = flat(poptorch.inferenceModel(module, _options())(*(t.clone() for t in module.tensors)))
    if len(given) != len(wanted):
        return f"{len(given)} results, wanted {len(wanted)}"
    if op_name in ORDERING:
        kinds = [t.dtype for t in given]
        given, wanted = (at_places(one, op_name, sample) for one in (given, wanted))
        if kinds[-1] != torch.int32:
            return f"places of dtype {kinds[-1]}, wanted torch.int32"
        given = [t.to(_HOST.get(t.dtype, t.dtype)) for t in given]
    tolerance = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    if op_name in RANDOM or draws_numbers(module):
        tolerance = float("inf")
    text = first_difference(given, wanted, tolerance)
    if text and dtype in HALVES and op_name not in ORDERING:
        wide = Sample(op, in_float32(sample))
        text = judged(given, wanted, flat(wide.call(wide.tensors)), tolerance)
    return f"result: {text}" if text else ""


def with_loss(op: Any, sample: Any) -> Sample | None:
    """A module whose loss is a weighted sum of the results; None where nothing has a gradient."""
    module = Sample(op, sample)
    results = flat(module.call(module.tensors))
    generator = torch.Generator().manual_seed(1)
    module.cotangents = [
        torch.randn(r.shape, generator=generator)
        if r.is_floating_point() and (r.requires_grad or r.grad_fn)
        else None
        for r in results
    ]
    if any(t.numel() == 0 for t in results) or not any(c is not None for c in module.cotangents):
        return None
    module.weights = torch.nn.ParameterList(
        torch.nn.Parameter(t.detach().clone(), t.requires_grad)
        for t in module.tensors
        if t.is_floating_point()
    )
    return module


def step_of(module: Sample) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The results, and the weights that plain SGD makes, in eager torch; those of `module` stay."""
    others = [t for t in module.tensors if not t.is_floating_point()]
    loss, *results = module(*others)
    loss.backward()
    weights = [
        w.detach().clone() if w.grad is None else (w - w.grad).detach() for w in module.weights
    ]
    return [result.detach() for result in results], weights


def check_training(op_name: str, op: Any, sample: Any, dtype: torch.dtype) -> str:
    """Compare results and the step of plain SGD that one sample makes; empty: they agree."""
    if op_name in RANDOM or draws_numbers(Sample(op, sample)):
        return ""
    module = with_loss(op, sample)
    if module is None or (op_name in ORDERING and has_equal_elements(sample.input)):
        return check_forward(op_name, op, sample, dtype)
    wanted = step_of(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    model = poptorch.trainingModel(module, _options(), optimizer)
    _, *results = model(*(t for t in module.tensors if not t.is_floating_point()))
    model.destroy()
    given = results, [weight.detach() for weight in module.weights]
    tolerance = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    tolerances = tolerance, 4 * tolerance
    text = differences_of_step(given, wanted, tolerances)
    if text and dtype in HALVES:
        judge = with_loss(op, in_float32(sample))
        assert judge is not None
        exact = step_of(judge)
        texts = [judged(*four) for four in zip(given, wanted, exact, tolerances, strict=True)]
        text = next((one for one in texts if one), "")
    return text


def differences_of_step(
    given: tuple[list[torch.Tensor], ...],
    wanted: tuple[list[torch.Tensor], ...],
    tolerances: tuple[float, ...],
) -> str:
    """What is wrong with results or weights; empty: nothing."""
    for what, *three in zip(("result", "gradient"), given, wanted, tolerances, strict=True):
        if text := first_difference(*three):
            return f"{what}: {text}"
    return ""


def has_equal_elements(tensor: torch.Tensor) -> bool:
    """Whether the gradient of elements in order is free to choose."""
    return tensor.detach().unique().numel() < tensor.numel()


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


def is_refusal(name: str, message: str) -> bool:
    """Whether an error is one that the specification asks for."""
    return name in REFUSALS and REFUSALS[name] in message


def chosen(found: Iterator[Any], count: int) -> list[Any]:
    """Up to `count` samples that are owed; scalars only where there are no others."""
    owed = [sample for sample in itertools.islice(found, 8 * count) if not is_supported(sample)]

    def is_scalar(sample: Any) -> bool:
        return all(t.numel() == 1 for t in Sample(None, sample).tensors)

    return sorted(owed, key=is_scalar)[:count]


def run_operator(
    info: Any, dtype: torch.dtype, samples: int, gradients: bool, tied: bool = False
) -> Report:
    """Run a few samples of one operator, `tied` with equal elements."""
    report = Report(info.name + (f".{info.variant_test_name}" if info.variant_test_name else ""))
    wants_gradient = gradients and dtype.is_floating_point and info.supports_autograd
    check = check_training if wants_gradient else check_forward
    torch.manual_seed(0)
    # The database looks for a test of unittest in all frames, which pytest has many of.
    with mock.patch.object(inspect, "stack", list):
        found = chosen(info.sample_inputs("cpu", dtype, requires_grad=wants_gradient), samples)
    for sample in map(with_equal_elements, found) if tied else found:
        try:
            text = check(info.name, info.op, sample, dtype)
        except Exception as error:  # every kind of failure is a line of the report
            if isinstance(error, poptorch.Error) and is_refusal(info.name, str(error)):
                report.refused += 1
                continue
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
    parser.add_argument("--tied", action="store_true", help="samples with equal elements and zeros")
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
            report = run_operator(info, dtype, given.samples, given.gradients, given.tied)
            if not report.passed and not report.failures:
                continue
            rows.append({"dtype": kind, **vars(report), "whole": report.whole})
            if not report.whole:
                failure = known.get((report.name, "tied" if given.tied else kind))
                unknown = unknown_failures(report.failures, failure)
                print(
                    f"{kind} {report.name}: {len(report.failures)} of "
                    f"{len(report.failures) + report.passed} fail: "
                    f"{(unknown or report.failures)[0]}",
                    "" if failure is None or unknown else f"(known: {failure.reason})",
                )
                sys.stdout.flush()
    whole = Counter(row["dtype"] for row in rows if row["whole"])
    every = Counter(row["dtype"] for row in rows)
    for kind in every:
        ran = [row for row in rows if row["dtype"] == kind]
        for what in ("passed", "refused"):
            print(f"{kind}: {sum(row[what] for row in ran)} samples {what}")
        print(
            f"{kind}: {whole[kind]} of {every[kind]} operators whole "
            f"({100 * whole[kind] / every[kind]:.1f} %)"
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if whole == every else 1


if __name__ == "__main__":
    sys.exit(main())
