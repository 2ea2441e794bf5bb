"""Variable factories: when data is drawn, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory


@pytest.fixture(autouse=True)
def main_graph() -> Iterator[popxl.Graph]:
    with popxl.Ir().main_graph as graph:
        yield graph


class Counter:
    """Data that tells how often it was drawn."""

    def __init__(self, shape: tuple[int, ...] = (2,)) -> None:
        self.calls = 0
        self.shape = shape

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return np.full(self.shape, self.calls, np.float32)


def test_a_function_is_tried_once_and_peeked_once() -> None:
    data = Counter()
    factory = VariableFactory(data, name="w")
    assert data.calls == 2
    assert factory.next_data().tolist() == [2, 2]
    assert data.calls == 2
    assert factory.next_data().tolist() == [3, 3]


def test_seeded_runs_draw_what_they_should() -> None:
    np.random.seed(5)
    VariableFactory(partial(np.random.normal, 0, 1, (3,)))
    factory = VariableFactory(partial(np.random.normal, 0, 1, (3,)), popxl.float32)
    np.random.seed(5)
    draws = [np.random.normal(0, 1, (3,)) for _ in range(5)]
    np.testing.assert_array_equal(factory.next_data(), draws[3].astype(np.float32))
    np.random.seed(5)
    for _ in range(4):
        np.random.normal(0, 1, (3,))
    np.testing.assert_array_equal(factory.next_data(), draws[4].astype(np.float32))


def test_an_iterable_is_consumed() -> None:
    factory = VariableFactory(np.arange(4, dtype=np.float32).reshape(2, 2))
    assert factory.shape == (2,)
    assert [factory.next_data().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(StopIteration):
        factory.next_data()


def test_dtype_and_shape_come_from_the_data() -> None:
    given = VariableFactory(partial(np.zeros, (2, 3)), popxl.float16)
    assert (given.shape, given.dtype, given.meta_shape) == ((2, 3), popxl.float16, None)
    assert given.next_data().dtype == np.float16
    assert VariableFactory(partial(np.zeros, ())).dtype is popxl.float32
    assert VariableFactory([np.zeros(2, np.int32)]).dtype is popxl.int32
    assert VariableFactory([torch.zeros(3, dtype=torch.float16)]).dtype is popxl.float16


def test_bad_data_is_refused() -> None:
    def fails() -> np.ndarray:
        raise RuntimeError("no such file")

    with pytest.raises(ValueError, match="no such file") as error:
        VariableFactory(fails)
    assert isinstance(error.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="function or an iterable"):
        VariableFactory(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="arrays, tensors or numbers"):
        VariableFactory([object()])
    with pytest.raises(AttributeError):
        VariableFactory([1.0])


def test_a_context_is_needed() -> None:
    graph = popxl.gcg()
    graph.__exit__(None, None, None)
    try:
        with pytest.raises(RuntimeError):
            VariableFactory(Counter())
        with pytest.raises(ValueError, match="division by zero"):
            VariableFactory(lambda: 1 / 0)
    finally:
        graph.__enter__()


def test_inputs_have_the_factorys_properties() -> None:
    factory = VariableFactory(Counter(), popxl.float16, "w", by_ref=True)

    def body() -> None:
        factory.create_input()
        factory.create_input("layer")

    graph = popxl.gcg().ir.create_graph(body)
    plain, prefixed = graph.inputs
    assert (plain.name, prefixed.name) == ("w", "layer.w")
    assert (plain.shape, plain.dtype) == ((2,), popxl.float16)
    assert plain in graph._by_ref_inputs


def test_empty_data_consumes_nothing() -> None:
    data = Counter()
    factory = VariableFactory(data)
    assert factory.next_data(empty=True).shape == (2,)
    assert factory.next_data().tolist() == [2, 2]


def test_memory_mapped_files(tmp_path: Path) -> None:
    data = Counter()
    factory = VariableFactory(data, name="w")
    folder = tmp_path / "new" / "folder"
    mapped = factory.next_memmap(folder, "w")
    assert mapped.tolist() == [2, 2]
    mapped[:] = 7
    mapped.flush()
    path = folder / "w.npy"
    assert path.stat().st_size == 8 and np.fromfile(path, np.float32).tolist() == [7, 7]
    again = factory.next_memmap(folder, "w")
    assert again.tolist() == [7, 7] and again.flags.writeable
    read_only = factory.next_memmap(folder, "w", read_only_if_exists=True)
    assert not read_only.flags.writeable and data.calls == 2


def named_factories() -> tuple[NamedVariableFactories, dict[str, Counter]]:
    data = {"weight": Counter((2, 2)), "a.z": Counter(()), "a.b": Counter()}
    return NamedVariableFactories.from_dict(
        {key: VariableFactory(counter, name=key) for key, counter in data.items()}
    ), data


def test_init_is_alphabetical_and_repeatable() -> None:
    factories, _ = named_factories()
    first = factories.init()
    assert first.keys_flat() == ["a.b", "a.z", "weight"]
    assert [t.name for t in first.values_flat()] == ["a.b", "a.z", "weight"]
    second = factories.init("copy")
    assert [t.name for t in second.values_flat()] == ["copy.a.b", "copy.a.z", "copy.weight"]
    third = factories.init()
    assert [t.name for t in third.values_flat()] == ["a.b__t0", "a.z__t1", "weight__t2"]


def test_init_draws_in_the_order_of_the_names() -> None:
    rng = np.random.default_rng(0)
    shared = partial(rng.normal, 0, 1, (2,))
    factories = NamedVariableFactories.from_dict(
        {key: VariableFactory(shared, name=key) for key in ("b", "a")}
    )
    factories.init()
    variables = factories.init("second")
    expected = np.random.default_rng(0)
    draws = [expected.normal(0, 1, (2,)) for _ in range(6)]
    session = popxl_values(variables)
    np.testing.assert_allclose(session["a"], draws[4], rtol=1e-6)
    np.testing.assert_allclose(session["b"], draws[5], rtol=1e-6)


def popxl_values(variables: addons.NamedTensors) -> dict[str, np.ndarray]:
    """The host values of variables; the program needs an op to be a program."""
    for tensor in variables.tensors:
        popxl.ops.add(tensor, tensor)
    session = popxl.Session(popxl.gcg().ir, "cpu")
    return {key: session.get_tensor_data(t) for key, t in variables.to_dict().items()}


def test_init_zero_keeps_insertion_order() -> None:
    factories, data = named_factories()
    zeros = factories.init_zero()
    assert zeros.keys_flat() == ["weight", "a.z", "a.b"]
    assert [t.shape for t in zeros.values_flat()] == [(2, 2), (), (2,)]
    assert [counter.calls for counter in data.values()] == [2, 2, 2]


def test_replica_groupings_have_the_same_keys() -> None:
    factories, _ = named_factories()
    groupings = factories.replica_groupings
    assert groupings.keys_flat() == factories.keys_flat()
    assert all(rg.num_groups == 1 for rg in groupings.values_flat())
