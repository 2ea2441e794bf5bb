"""Binding, comparison with the compiled call, results: against Python's own calls."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import logging
from collections import OrderedDict, UserDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import poptorch
from poptorch._args_parser import (
    ICustomArgParser,
    Signature,
    Structure,
    registerCustomArgParser,
    validate,
)
from poptorch._errors import Error
from poptorch._structures import describe

SUFFIX = (
    "\nThis error occurred because the inputs passed at runtime don't match the inputs used to "
    "compile the model.\nTo recompile the model for the new inputs create a new inferenceModel / "
    "trainingModel wrapper or call destroy() on the curent one and try again."
)
X, Y, Z = torch.zeros(2), torch.ones(3), torch.full((1,), 2.0)


class Point(NamedTuple):
    x: torch.Tensor
    y: Any


@dataclasses.dataclass(frozen=True)
class Box:
    low: torch.Tensor
    high: torch.Tensor
    label: str = "box"


class Output(OrderedDict):
    """Reachable by key and by attribute, as the results of transformers are."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Pair:
    def __init__(self, first: torch.Tensor, second: torch.Tensor, note: str) -> None:
        self.first, self.second, self.note = first, second, note


class PairParser(ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.first
        yield struct.second

    def reconstruct(self, original_structure, tensor_iterator):
        first, second = next(tensor_iterator), next(tensor_iterator)
        return type(original_structure)(first, second, original_structure.note)


@pytest.fixture
def pair_parser():
    registerCustomArgParser(Pair, PairParser())
    yield
    registerCustomArgParser(Pair, None)


def forward(x, y=Y, *rest, flag=True, **others):
    return x, y, rest, flag, others


CALLS = [
    ((X,), {}),
    ((X, Z), {}),
    ((), {"x": X}),
    ((), {"y": Z, "x": X}),
    ((X, Z, X, Y), {"flag": False}),
    ((X,), {"flag": None, "more": Y, "last": [Z]}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_bound_arguments_mean_the_same_call(args, kwargs) -> None:
    bound = Signature(forward).bind(args, kwargs)
    again = forward(*bound.args, **bound.kwargs)
    assert repr(again) == repr(forward(*args, **kwargs))


def test_canonical_order_and_names() -> None:
    bound = Signature(forward).bind(
        ((X, {"b": Y, "a": [Z]}), X, Y, Point(Z, 3)), {"more": Z, "flag": X}
    )
    assert [name for name, _ in bound.tensors()] == [
        "x[0]",
        "x[1][b]",
        "x[1][a][0]",
        "y",
        "*rest[0]",
        "*rest[1][0]",
        "flag",
        "**others[more]",
    ]
    expected = [X, Y, Z, X, Y, Z, X, Z]
    assert all(a is b for (_, a), b in zip(bound.tensors(), expected, strict=True))


def test_methods_are_bound_without_self() -> None:
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    module = Module()
    bound = Signature(module.forward).bind((X,), {"y": X})
    torch.testing.assert_close(module(*bound.args, **bound.kwargs), X + X)


def test_binding_errors() -> None:
    def three(x, y, z=None, *, key=1):
        return x, y, z, key

    bind = Signature(three).bind
    with pytest.raises(AssertionError) as raised:
        bind((1, 2, 3, 4), {})
    assert str(raised.value) == (
        "Too many arguments provided: expected ['x', 'y', 'z'] (3) but got 4"
    )
    with pytest.raises(AssertionError) as raised:
        bind((1, 2), {"w": 1})
    assert str(raised.value) == (
        "w is not a valid parameter.Allowed values are ['x', 'y', 'z', 'key']"
    )
    with pytest.raises(AssertionError, match=r"^Parameter x was passed more than once$"):
        bind((1, 2), {"x": 1})
    with pytest.raises(Error, match="Mandatory parameter y missing"):
        bind((1,), {"z": 1})


def make_structures() -> list[Any]:
    return [
        X,
        (X, Y),
        [X, [Y, (Z,)]],
        {"a": X, "b": {"c": Y}},
        OrderedDict(b=X, a=Y),
        collections.defaultdict(list, a=X),
        UserDict(a=X),
        Point(X, [Y, 7]),
        Box(X, Y),
        Output(loss=X, logits=Y),
        torch.max(torch.arange(6).reshape(2, 3), dim=1),
        torch.Size([3, 4]),
        None,
        "text",
        (5, X, None),
    ]


@pytest.mark.parametrize("value", make_structures(), ids=lambda value: type(value).__name__)
def test_other_tensors_in_the_same_structure(value: Any) -> None:
    bound = Signature(lambda x: x).bind((value,), {})
    old = bound.tensors()
    new = bound.with_tensors([tensor + 1 for _, tensor in old])
    assert type(new.args[0]) is type(value)
    assert [name for name, _ in new.tensors()] == [name for name, _ in old]
    for (_, before), (_, after) in zip(old, new.tensors(), strict=True):
        torch.testing.assert_close(after, before + 1)
    assert all(a is b for (_, a), (_, b) in zip(bound.tensors(), old, strict=True))
    if isinstance(value, Output):
        assert new.args[0].loss is new.args[0]["loss"] is new.tensors()[0].tensor
    validate(bound, Signature(lambda x: x).bind((copy.deepcopy(value),), {}))


def test_with_tensors_wants_as_many() -> None:
    bound = Signature(lambda x: x).bind(([X, Y],), {})
    with pytest.raises(ValueError, match="wanted 2 tensors; given 1"):
        bound.with_tensors([X])


def test_custom_types(pair_parser: None) -> None:
    class Triple(Pair):
        pass

    signature = Signature(lambda x: x)
    for kind in (Pair, Triple):
        bound = signature.bind(([kind(X, Y, "note")],), {})
        assert [name for name, _ in bound.tensors()] == ["x[0][0]", "x[0][1]"]
        made = bound.with_tensors([Y, X]).args[0][0]
        assert type(made) is kind
        assert made.first is Y
        assert made.second is X
        assert made.note == "note"
    with pytest.raises(Error, match=r"Shape mismatch for x\[0\]\[1\]"):
        validate(bound, signature.bind(([Triple(X, X, "note")],), {}))
    with pytest.raises(AssertionError, match="arg_parser must inherit from ICustomArgParser"):
        registerCustomArgParser(Pair, PairParser)  # type: ignore[arg-type]
    registerCustomArgParser(Pair, None)
    assert not signature.bind((Pair(X, Y, ""),), {}).tensors()


def test_an_exact_type_has_its_own_parser(pair_parser: None) -> None:
    class Single(Pair):
        pass

    class SingleParser(PairParser):
        def yieldTensors(self, struct):
            yield struct.second

    registerCustomArgParser(Single, SingleParser())
    try:
        bound = Signature(lambda x: x).bind((Single(X, Y, ""),), {})
        assert [tensor is Y for _, tensor in bound.tensors()] == [True]
    finally:
        registerCustomArgParser(Single, None)


def single(compiled: Any, given: Any) -> str:
    """The message for two values of the argument x."""
    signature = Signature(lambda x: x)
    with pytest.raises(Error) as raised:
        validate(signature.bind((compiled,), {}), signature.bind((given,), {}))
    assert raised.value.message.endswith(SUFFIX)
    return raised.value.message.removesuffix(SUFFIX)


def test_what_differs_from_the_compiled_call() -> None:
    assert single(X, Y) == "Shape mismatch for x: expected torch.Size([2]) but got torch.Size([3])."
    assert single(X, X.long()) == (
        "Data type mismatch for x: expected torch.float32 but got torch.int64."
    )
    assert single(5, 3) == "Value mismatch for x: expected 5 but got 3."
    assert single("a", "b") == "Value mismatch for x: expected 'a' but got 'b'."
    assert single([X, 5], [X, 3]) == "Value mismatch for x[1]: expected 5 but got 3."
    assert single([X], [X, X]) == "Length mismatch for x: expected 1 but got 2"
    assert single({"k": X}, {"k": Y}).startswith("Shape mismatch for x[k]: ")
    assert single({"k": X, "c": 1}, {"k": X, "a": 1, "b": 2}) == (
        "Keys mismatch for x: Unexpected arguments: a, b. Missing arguments: c."
    )
    assert single({"k": X}, {}) == "Keys mismatch for x: Missing arguments: k."
    assert single({}, {"k": X}) == "Keys mismatch for x: Unexpected arguments: k."
    for compiled, given in [(X, None), (None, X), ([X], (X,)), (1, True), (1, 1.0), ({}, [])]:
        kind = torch.Tensor if compiled is X else type(compiled)
        assert single(compiled, given) == (
            f"Type mismatch for x: expected {kind} but got {type(given)}"
        )
    assert single(Box(X, X), Box(X, X, "bin")).startswith("Value mismatch for x[label]: ")
    assert single(np.array([1, 2]), np.array([1, 2, 3])).startswith("Value mismatch for x: ")
    assert single(np.float32([1]), np.float64([1])).startswith("Value mismatch for x: ")


def test_numbers_of_arguments_that_differ() -> None:
    signature = Signature(forward)
    compiled = signature.bind((X, Y, Z), {"a": X})
    with pytest.raises(Error) as raised:
        validate(compiled, signature.bind((X, Y), {"a": X}))
    assert raised.value.message == (
        "Number of positional arguments mismatch: expected 3 arguments but got 2" + SUFFIX
    )
    with pytest.raises(Error, match=r"Shape mismatch for \*rest\[0\]"):
        validate(compiled, signature.bind((X, Y, X), {"a": X}))
    with pytest.raises(Error, match=r"Keys mismatch for \*\*others: Unexpected arguments: b\. "):
        validate(compiled, signature.bind((X, Y, Z), {"b": X}))


def test_calls_that_are_the_same() -> None:
    signature = Signature(forward)
    nan, array = float("nan"), np.array([1.0, np.nan])
    compiled = signature.bind(({"a": X, "b": Y}, nan, array), {"flag": 2, "p": Z, "q": X})
    given = signature.bind(
        ({"b": Y + 1, "a": X + 1}, float("nan"), array.copy()), {"q": X + 3, "flag": 2, "p": Z + 2}
    )
    expected = [X + 1, Y + 1, Z + 2, X + 3]
    torch.testing.assert_close(validate(compiled, given), expected)
    # What is left out has its default.
    compiled = signature.bind((X, Y), {})
    assert len(validate(compiled, signature.bind((X,), {}))) == 2


class Sum(torch.nn.Module):
    def forward(self, x: Any) -> torch.Tensor:
        tensors: list[torch.Tensor] = []
        describe("x", x).collect(x, tensors)
        return torch.stack(tensors).sum(0)


def test_dictionaries_are_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(caplog.handler)
    try:
        for argument, count in ([X, (X,)], 0), ({"a": X}, 1), ([X, ({"a": X},)], 2):
            model = poptorch.inferenceModel(Sum())
            for _ in range(2):
                model(argument)
            assert len(caplog.records) == count
    finally:
        logger.removeHandler(caplog.handler)
    assert all("partial support" in record.message for record in caplog.records)


@pytest.mark.parametrize("value", make_structures(), ids=lambda value: type(value).__name__)
def test_results_have_the_structure_of_the_trace(value: Any) -> None:
    traced = Signature(lambda x: x).bind((value,), {})
    traced = traced.with_tensors([tensor.to("meta") for _, tensor in traced.tensors()])
    structure = Structure(traced.args[0])
    assert [t.device.type for t in structure.tensors()] == ["meta"] * len(traced.tensors())
    results = [torch.rand(5) for _ in structure.tensors()]
    output = structure.rebuild(results)
    assert type(output) is type(value)
    found = Signature(lambda x: x).bind((output,), {}).tensors()
    assert all(a is b for (_, a), b in zip(found, results, strict=True))


def test_only_traced_tensors_are_replaced(pair_parser: None) -> None:
    meta = torch.zeros(2, device="meta")
    host = torch.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="Output expected to be on the IPU but is on cpu"):
        structure = Structure((meta, host, [meta, 3], Pair(meta, Y, "note")))
    host += 10
    assert len(structure.tensors()) == 3
    results = [torch.rand(4) for _ in range(3)]
    first, second, (third, three), pair = structure.rebuild(results)
    assert [first, third, pair.first] == results
    second += 5
    assert structure.rebuild(results)[1].tolist() == [1.0, 2.0]
    assert pair.second is not Y and torch.equal(pair.second, Y)
    assert three == 3
    with pytest.raises(ValueError, match="wanted 3 tensors; given 2"):
        structure.rebuild(results[:2])


def test_results_are_plain_tensors_without_backward() -> None:
    structure = Structure(torch.zeros(2, device="meta"))
    result = structure.rebuild([torch.arange(2.0)])
    with pytest.raises(Error, match="backward\\(\\) cannot be called explicitly on outputs of a"):
        result.backward()
    assert type(result) is torch.Tensor
    (result * torch.ones(2, requires_grad=True)).sum().backward()
    torch.testing.assert_close(copy.deepcopy(result), torch.arange(2.0))
    # A saved result can be loaded where this package does not exist.
    file = io.BytesIO()
    torch.save({"result": result}, file)
    assert b"poptorch" not in file.getvalue()
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["result"]
    assert type(loaded) is torch.Tensor
    torch.testing.assert_close(loaded, torch.arange(2.0))
