"""Functions of poptorch in compiled programs, beside the same module on the CPU or SciPy."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import poptorch


class Of(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def compiled(function, *args, **settings):
    options = poptorch.Options()
    for name, value in settings.items():
        getattr(options, name)(value)
    model = poptorch.inferenceModel(Of(function), options)
    try:
        return model(*args)
    finally:
        model.destroy()


def check_as_on_cpu(function, *args, **tolerances):
    given = compiled(function, *args)
    wanted = function(*args)
    single = isinstance(wanted, torch.Tensor)
    for one, other in zip(
        [given] if single else given, [wanted] if single else wanted, strict=True
    ):
        torch.testing.assert_close(one, other, check_dtype=False, **tolerances)


def test_identities():
    x = values(3, 4)
    for function in (
        poptorch.nop,
        poptorch.recomputationCheckpoint,
        lambda t: poptorch.set_available_memory(t @ t.T, 0.3),
        lambda t: poptorch.serializedMatMul(
            t, t.T, poptorch.MatMulSerializationMode.ReducingDim, 2
        ),
    ):
        check_as_on_cpu(function, x)


def test_internal_cast():
    def cast(x):
        return torch.ops.poptorch.internal_cast(x, "FLOAT16")

    result = compiled(cast, torch.tensor([1.0, 1 / 3]))
    assert result.dtype == torch.float16
    assert torch.equal(result, torch.tensor([1.0, 1 / 3]).half())


def test_print(capfd):
    compiled(lambda x: poptorch.ipu_print_tensor(x, "shown", digits=2) + 1, torch.tensor([1.5, 2]))
    printed = capfd.readouterr().err
    assert "shown: (" in printed and "1.5" in printed


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("start", [0, 2, 4])
def test_dynamic_slice(start, step):
    def cut(x, first):
        return poptorch.dynamic_slice(x, 1, first, 4, step)

    check_as_on_cpu(cut, values(3, 8), torch.tensor([start]))


def test_dynamic_slices_go_on_at_the_beginning():
    def cut(x, first):
        return poptorch.dynamic_slice(x, 0, first, 4, 1)

    x = values(8)
    for start in (5, 7, 8, 20, -1, -17):
        given = compiled(cut, x, torch.tensor([start]))
        assert torch.equal(given, x[torch.arange(start, start + 4) % 8])


@pytest.mark.parametrize("start", [0, 3])
def test_dynamic_update(start):
    def put(x, part, first):
        return poptorch.dynamic_update(x, part, 1, first, 5)

    check_as_on_cpu(put, values(3, 8), values(3, 5, seed=1), torch.tensor([start]))


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0])
def test_fps(ratio):
    check_as_on_cpu(lambda x: poptorch.fps(x, [0, 7, 25, 40], ratio), values(40, 3))


def test_fps_with_a_random_start():
    points = torch.tensor([[0.0], [1.0], [5.0]])
    starts = set()
    for seed in range(12):
        first, second = compiled(
            lambda x: poptorch.fps(x, [0, 3], 0.6, True), points, randomSeed=seed
        ).tolist()
        assert second == {0: 2, 1: 2, 2: 0}[first]
        starts.add(first)
    assert len(starts) > 1


BATCH_X, BATCH_Y = [0] * 10 + [1] * 12 + [2] * 8, [0] * 5 + [1] * 8 + [2] * 7


def test_nearest():
    x, y = values(30, 3), values(20, 3, seed=1)
    check_as_on_cpu(poptorch.nearest, x, y)
    check_as_on_cpu(lambda a, b: poptorch.nearest(a, b, BATCH_X, BATCH_Y), x, y)
    check_as_on_cpu(poptorch.nearest, x, y, torch.tensor(BATCH_X), torch.tensor(BATCH_Y))
    check_as_on_cpu(lambda a, b, c: poptorch.nearest(a, b, BATCH_X, c), x, y, torch.tensor(BATCH_Y))


def best_paths(log_probs, blank, count):
    """All label sequences by probability, from all alignments."""
    steps, classes = log_probs.shape
    found = {}
    for alignment in itertools.product(range(classes), repeat=steps):
        labels = tuple(k for k, _ in itertools.groupby(alignment) if k != blank)
        score = sum(log_probs[t, k] for t, k in enumerate(alignment))
        found.setdefault(labels, []).append(score)
    ranked = sorted(((logsumexp(v), k) for k, v in found.items()), reverse=True)
    return ranked[:count]


def test_beam_search():
    probs = torch.log_softmax(values(5, 2, 3), 2)
    scores, counts, labels = compiled(
        lambda p, n: poptorch.ctc_beam_search_decoder(p, n, 0, 100, 3), probs, torch.tensor([5, 4])
    )
    for sample, steps in ((0, 5), (1, 4)):
        for path, (score, wanted) in enumerate(best_paths(probs[:steps, sample].numpy(), 0, 3)):
            assert counts[sample, path] == len(wanted)
            assert tuple(labels[sample, path, : len(wanted)].tolist()) == wanted
            np.testing.assert_allclose(scores[sample, path], score, rtol=1e-5)


# --- loops and conditions ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops(count):
    def loop(x, y):
        return poptorch.for_loop(count, lambda a, n: (a * 2 + y, n + 1), [x, y.long()])

    check_as_on_cpu(loop, values(3), torch.ones(3))


def test_loops_take_inputs_by_value_and_may_write_them():
    def loop(x):
        (y,) = poptorch.for_loop(3, lambda a: a.add_(x), [x])
        return x, y

    check_as_on_cpu(loop, values(3))


def test_loops_nest_and_read_weights_constants_and_views():
    table = values(4, 4, seed=2)

    class Nested(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            row = x[0]

            def inner(a):
                return torch.tanh(self.linear(a) + table.to(x.device)[0]) + row

            def outer(a):
                return poptorch.for_loop(2, inner, [a])[0] * 0.5

            return poptorch.for_loop(3, outer, [x])[0]

    torch.manual_seed(0)
    module, x = Nested(), values(2, 4)
    given = poptorch.inferenceModel(module)(x)
    torch.testing.assert_close(given, module(x))


def test_a_loop_may_not_write_what_is_outside():
    def loop(x):
        total = x * 0

        def body(a):
            total.add_(a)
            return a + 1

        return [total, *poptorch.for_loop(3, body, [x])]

    with pytest.raises(
        poptorch.Error,
        match=r"for_loop\(\) calls at .*test_compiled_ops.py.* writes a tensor of shape \[3\]",
    ):
        compiled(loop, values(3))


def any_row(x):
    """A random row of a thousand."""
    return poptorch.fps(x, [0, 1000], 0.001, True)


def test_each_iteration_draws_numbers_of_its_own():
    def loop(x, none):
        return poptorch.for_loop(3, lambda a, b, c: (any_row(x), a, b), [none, none, none])

    none = torch.zeros(1, dtype=torch.int32)
    draws = {int(row) for row in compiled(loop, values(1000, 2), none, randomSeed=3)}
    assert len(draws) == 3


def test_conditions():
    def choose(x, limit):
        return poptorch.cond(
            x.sum() > limit[0],
            lambda a: (a * 2, a.sum()),
            [x],
            lambda a: (a + limit[0], a.mean()),
            [x + 1],
        )

    for limit in (-100.0, 100.0):
        check_as_on_cpu(choose, values(3), torch.tensor([limit]))


def test_conditions_nest_and_stand_in_loops():
    def steps(n):
        def step(a):
            return poptorch.cond(
                a.sum() > 10,
                lambda b: poptorch.cond(b.sum() > 20, lambda c: c * 0.5, [b], lambda c: c - 3, [b]),
                [a],
                lambda b: b + 4,
                [a],
            )

        return poptorch.for_loop(7, step, [n])

    for number in (1.0, 12.0, 400.0):
        check_as_on_cpu(steps, torch.tensor([number]))


def test_results_of_conditions_take_the_rank_of_the_else_branch():
    def choose(x):
        return poptorch.cond(
            x.sum() > 0, lambda a: a.reshape(6), [x], lambda a: a.reshape(2, 3), [x]
        )

    assert compiled(choose, torch.ones(2, 3))[0].shape == (2, 3)

    def flatten(x):
        return poptorch.cond(x.sum() > 0, lambda a: a.reshape(1), [x], lambda a: a.sum(), [x])

    with pytest.raises(poptorch.Error, match="empty shape of else_body"):
        compiled(flatten, torch.ones(1))

    def differ(x):
        return poptorch.cond(x.sum() > 0, lambda a: a[:2], [x], lambda a: a[:3], [x])

    with pytest.raises(
        poptorch.Error, match=r"then_body returned \[2\] float32 and else_body \[3\]"
    ):
        compiled(differ, torch.ones(4))


def test_random_numbers_in_conditions():
    def choose(x):
        return poptorch.cond(x.sum() > 0, any_row, [x], lambda a: any_row(a) * 0 - 1, [x])

    points = torch.ones(1000, 2)
    rows = {int(compiled(choose, points, randomSeed=seed)[0]) for seed in (1, 1, 2, 3)}
    assert len(rows) == 3 and -1 not in rows
    assert compiled(choose, -points)[0].tolist() == [-1]


# --- contexts ------------------------------------------------------------------------------------


def test_multi_convs_compute_what_their_convolutions_do():
    def convolve(x):
        with poptorch.MultiConv().planType(poptorch.MultiConvPlanType.Parallel):
            return (
                torch.nn.functional.conv1d(x, torch.ones(2, 3, 2, device=x.device)),
                torch.nn.functional.conv1d(x, torch.ones(1, 3, 1, device=x.device)),
            )

    check_as_on_cpu(convolve, values(1, 3, 6))


def test_multi_convs_need_convolutions_that_are_independent():
    def empty(x):
        with poptorch.MultiConv():
            return x + 1

    def chained(x):
        with poptorch.MultiConv():
            y = torch.nn.functional.conv1d(x, torch.ones(3, 3, 2, device=x.device))
            return torch.nn.functional.conv1d(y * 2, torch.ones(3, 3, 2, device=x.device))

    with pytest.raises(poptorch.Error, match=r"Unexpected end_multi_conv\."):
        compiled(empty, values(1, 3, 6))
    with pytest.raises(poptorch.Error, match="must be independent of each other"):
        compiled(chained, values(1, 3, 6))


OVERLAP = poptorch.OverlapMode.OverlapDeviceIterationLoop


def overlapped(function, *args, tiles=32, mode=poptorch.OutputMode.All, **settings):
    options = poptorch.Options().outputMode(mode)
    if tiles:
        options.TensorLocations.numIOTiles(tiles)
    for name, value in settings.items():
        getattr(options, name)(value)
    return poptorch.inferenceModel(Of(function), options)(*args)


def test_overlap_changes_no_values():
    def both(x):
        y = poptorch.set_overlap_for_input({"x": x}, OVERLAP)["x"] + 1
        return poptorch.set_overlap_for_output([y, y * 2], OVERLAP)

    x = values(3)
    for one, other in zip(overlapped(both, x), (x + 1, (x + 1) * 2), strict=True):
        assert torch.equal(one, other)


def test_overlap_keeps_structures():
    inner = collections.OrderedDict(b=(values(1), [values(2)]))
    given = collections.defaultdict(list, {"a": inner})
    result = poptorch.set_overlap_for_output(given, OVERLAP)
    assert type(result) is collections.defaultdict and result.default_factory is list
    assert result is not given and result["a"] is not inner
    assert type(result["a"]) is collections.OrderedDict
    assert torch.equal(result["a"]["b"][1][0], values(2))


def again(x):
    y = poptorch.set_overlap_for_output(x + 1, OVERLAP)
    return y, y


@pytest.mark.parametrize(
    ("function", "settings", "text"),
    [
        (
            lambda x: poptorch.set_overlap_for_input(x, OVERLAP),
            {"tiles": 0},
            "No IO tiles allocated",
        ),
        (
            lambda x: poptorch.set_overlap_for_input(x + 1, OVERLAP),
            {},
            "wanted an input of the model",
        ),
        (
            lambda x: (x * 2, poptorch.set_overlap_for_input(x, OVERLAP)),
            {},
            "the first to use the input; aten::mul",
        ),
        (lambda x: poptorch.set_overlap_for_output(x + 1, OVERLAP) * 2, {}, "it does not return"),
        (again, {}, "it returns 2 times"),
        (
            lambda x: poptorch.set_overlap_for_output(x + 1, OVERLAP),
            {"mode": poptorch.OutputMode.Final},
            "wanted the output mode All or Sum; given Final",
        ),
    ],
)
def test_overlap_is_for_inputs_and_results(function, settings, text):
    with pytest.raises(poptorch.Error, match=text):
        overlapped(function, values(3), **settings)


def test_overlap_is_not_for_pipelines():
    def staged(x):
        y = poptorch.set_overlap_for_input(x, OVERLAP)
        with poptorch.Block(ipu_id=1):
            return y + 1

    with pytest.raises(poptorch.Error, match="not supported with pipelined execution"):
        overlapped(staged, values(4), deviceIterations=4)


def test_a_failed_trace_leaves_nothing_open():
    def fails(x):
        with poptorch.NameScope("a"), poptorch.Block(ipu_id=0), poptorch.MultiConv():
            raise KeyError("in forward")

    with pytest.raises(KeyError, match="in forward"):
        compiled(fails, values(3))
    assert not poptorch.isRunningOnIpu()
    check_as_on_cpu(lambda x: x + 1, values(3))
