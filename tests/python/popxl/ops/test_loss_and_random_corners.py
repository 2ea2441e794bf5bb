"""Losses and random numbers: every argument, mixed types and errors."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.ops.random_seed import create_random_seed
from tests.python.popxl.ops.op_testing import check, gradients, outputs, random

LABELS = np.array([1, 0, 3, 2, 3, 9], np.int32)  # the last one is out of range
REDUCTIONS = ["mean", "sum", "none"]
EPSILON = {np.float32: 1e-7, np.float16: 6.104e-5}
GRADIENT_EPSILON = {np.float32: 1e-10, np.float16: 6.104e-5}


def probabilities(dtype=np.float32, *shape):
    logits = torch.from_numpy(random(*(shape or (6, 5))))
    return torch.softmax(logits, -1).numpy().astype(dtype)


def chosen(probs, labels):
    """The probability of each label; 0 for one that is out of range."""
    inside = (labels >= 0) & (labels < probs.shape[-1])
    safe = np.where(inside, labels, 0)[..., None]
    return np.where(inside, np.take_along_axis(probs.astype(np.float64), safe, -1)[..., 0], 0)


def reduced(losses, kept, reduction):
    losses = np.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / (max(kept.sum(), 1) if reduction == "mean" else 1)


def scale_of(kept, reduction):
    return 1 / max(kept.sum(), 1) if reduction == "mean" else 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("log_prob", [False, True])
@pytest.mark.parametrize("ignore_index", [None, 3, -1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(reduction, ignore_index, log_prob, dtype):
    probs = probabilities(dtype)
    probs[2] = [1, 0, 0, 0, 0]  # a label of probability 0
    if log_prob:
        probs = np.log(np.maximum(probs, 1e-3)).astype(dtype)
    kept = np.ones(6, bool) if ignore_index is None else ignore_index != LABELS
    p = chosen(probs, LABELS)
    losses = -p if log_prob else -np.log(np.maximum(p, EPSILON[dtype]))

    def build(x, labels):
        return ops.nll_loss(x, labels, ignore_index, reduction, log_prob)

    tolerance = 2e-3 if dtype is np.float16 else 1e-5
    (given,) = outputs(build, probs, LABELS)
    assert given.dtype == dtype
    np.testing.assert_allclose(given, reduced(losses, kept, reduction), rtol=tolerance)

    if dtype is np.float16:
        return
    (gradient,), weights = gradients(build, probs, LABELS)
    one_hot = LABELS[:, None] == np.arange(5)
    slope = 1 if log_prob else 1 / np.maximum(p, GRADIENT_EPSILON[dtype])[:, None]
    wanted = -1.0 * one_hot * slope * kept[:, None] * scale_of(kept, reduction)
    wanted = wanted * (weights[:, None] if reduction == "none" else weights)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float16, np.float32)])
@pytest.mark.parametrize("ignore_index", [None, 3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_with_softmax_grad(reduction, ignore_index, types):
    probs = probabilities(types[0])
    kept = np.ones(6, bool) if ignore_index is None else ignore_index != LABELS
    losses = -np.log(chosen(probs, LABELS) + 1e-7)
    shapes = [(), (6,)] if reduction == "none" else [()]
    for shape in shapes:
        loss_grad = random(*shape, dtype=types[1], low=1, high=8)
        loss, dx = outputs(
            lambda p, t, g: ops.nll_loss_with_softmax_grad(p, t, g, ignore_index, reduction),
            probs,
            LABELS,
            loss_grad,
        )
        assert loss.dtype == dx.dtype == types[0]
        tolerance = 4e-3 if types[0] is np.float16 else 1e-5
        np.testing.assert_allclose(loss, reduced(losses, kept, reduction), rtol=tolerance)
        one_hot = LABELS[:, None] == np.arange(5)
        wanted = (probs - one_hot) * (loss_grad[:, None] if shape else loss_grad)
        wanted = wanted * kept[:, None] * scale_of(kept, reduction)
        np.testing.assert_allclose(dx, wanted, rtol=tolerance, atol=tolerance)


def test_losses_of_more_dimensions_and_all_ignored():
    probs, labels = probabilities(np.float32, 2, 3, 5), np.array([[1, 2, 0], [4, 3, 1]], np.uint16)
    check(
        lambda p, t: ops.nll_loss(p, t),
        lambda p, t: np.float32(-np.log(chosen(p, t)).mean()),
        probs,
        labels,
    )
    same = np.full(6, 2, np.int32)
    for build in (
        lambda p, t: ops.nll_loss(p, t, 2),
        lambda p, t: ops.nll_loss_with_softmax_grad(p, t, ignore_index=2),
    ):
        for result in outputs(build, probabilities(), same):
            np.testing.assert_array_equal(result, 0)


def test_loss_names_and_errors():
    with popxl.Ir().main_graph as graph:
        p, labels = popxl.variable(probabilities()), popxl.variable(LABELS)
        assert ops.nll_loss(p, labels).name == "loss"
        loss, dx = ops.nll_loss_with_softmax_grad(p, labels, 3)
        assert dx.name == "dx"
        assert loss.name.startswith("loss")
        assert [c.dtype for c in graph.constants] == [popxl.float32]
        kinds = [op.opType() for op in graph._pb_graph.getOps()]
        assert kinds == ["Nll", "NlllWithSoftmaxGradDirect"]
        for wrong in (LABELS[:4], LABELS.astype(np.float32), LABELS.reshape(6, 1)):
            with pytest.raises(popart.popart_exception):
                ops.nll_loss(p, popxl.variable(wrong))
        for op in (ops.nll_loss, ops.nll_loss_with_softmax_grad):
            with pytest.raises(ValueError, match="Must choose from: mean, sum, none"):
                op(p, labels, reduction="max")


# --- random numbers ------------------------------------------------------------------------------

SEED = np.array([5, 7], np.uint32)
OTHER = np.array([5, 8], np.uint32)


def test_split_random_seed():
    two = outputs(lambda s: ops.split_random_seed(s), SEED)
    five = outputs(lambda s: ops.split_random_seed(s, 5), SEED)
    # A child depends on its number, not on how many there are.
    np.testing.assert_array_equal(two, five[:2])
    assert len({tuple(child) for child in five}) == 5
    assert {child[0] for child in five} == {5}
    (third,) = outputs(lambda s: create_random_seed(s, 2), SEED)
    np.testing.assert_array_equal(third, five[2])
    (other,) = outputs(lambda s: create_random_seed(s, 2), OTHER)
    assert tuple(other) != tuple(third)
    with popxl.Ir().main_graph as graph:
        seed = popxl.variable(SEED)
        children = ops.split_random_seed(seed, 3)
        assert isinstance(children, tuple)
        assert children[0].name == "modified_seed"
        assert [c.dtype for c in graph.constants] == [popxl.uint32] * 3
        assert [op.opType() for op in graph._pb_graph.getOps()] == ["ModifyRandomSeed"] * 3
        for wrong in (SEED.astype(np.int32), SEED.reshape(1, 2), SEED[:1]):
            bad = popxl.variable(wrong)
            for call in (
                lambda bad=bad: ops.split_random_seed(bad),
                lambda bad=bad: ops.random_uniform(bad, (2,)),
                lambda bad=bad: ops.dropout(popxl.variable(1.0), bad, 0.5),
            ):
                with pytest.raises(ValueError, match="seed Tensor must be shape"):
                    call()


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16, None])
def test_distributions(dtype):
    def build(seed):
        return (
            ops.random_uniform(seed, (100, 100), -1.0, 3.0, dtype),
            ops.random_normal(seed, (100, 100), 2.0, 0.5, dtype),
        )

    uniform, normal = outputs(build, SEED)
    wanted = (dtype or popxl.float32).as_numpy()
    assert uniform.dtype == normal.dtype == wanted
    assert uniform.min() >= -1
    assert uniform.max() < 3 or (wanted == np.float16 and uniform.max() <= 3)
    counts, _ = np.histogram(uniform.astype(np.float64), 10, (-1, 3))
    assert abs(counts - 1000).max() < 150
    centred = (normal.astype(np.float64) - 2) / 0.5
    assert abs(centred.mean()) < 0.05
    assert abs(centred.std() - 1) < 0.05
    assert abs((np.abs(centred) < 1).mean() - 0.6827) < 0.02
    again = outputs(build, SEED)
    np.testing.assert_array_equal(again[0], uniform)
    np.testing.assert_array_equal(again[1], normal)
    assert (outputs(build, OTHER)[0] != uniform).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_dropout(p, dtype):
    x = np.ones((80, 50), dtype)
    (given,) = outputs(lambda t, s: ops.dropout(t, s, p), x, SEED)
    assert len(np.unique(given)) == (1 if p == 0 else 2)
    np.testing.assert_allclose(given[given != 0], 1 / (1 - p), rtol=1e-3)
    assert abs((given == 0).mean() - p) < 0.03
    # The mask depends on the seed alone, and the gradient has the same one.
    y = random(80, 50, dtype=dtype, low=1)
    (scaled,) = outputs(lambda t, s: ops.dropout(t, s, p), y, SEED)
    np.testing.assert_array_equal(scaled == 0, given == 0)
    ir = popxl.Ir()
    with ir.main_graph:
        t, seed = popxl.variable(x), popxl.variable(SEED)
        graph = ir.create_graph(ops.dropout, t, seed, p)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        kinds = [op.opType() for op in info.graph._pb_graph.getOps()]
        assert "Dropout" in kinds
        call = ops.call_with_info(graph, t, seed)
        (g,) = ops.call(info.graph, popxl.variable(y), inputs_dict=info.inputs_dict(call))
        stream = popxl.d2h_stream(g.shape, g.dtype)
        ops.host_store(stream, g)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[stream], scaled)


@pytest.mark.parametrize("shape", [(50, 1), (1, 40), (40,), (50, 40)])
def test_shaped_dropout(shape):
    x = random(50, 40, low=1)
    (given,) = outputs(lambda t, s: ops.shaped_dropout(t, s, shape, 0.25), x, SEED)
    mask = np.isclose(given, x / 0.75, rtol=1e-5)
    assert (mask | (given == 0)).all()
    full = np.broadcast_to(mask[: shape[0] if len(shape) > 1 else 1, : shape[-1]], x.shape)
    np.testing.assert_array_equal(mask, full)
    assert 0 < mask.mean() < 1
    ir = popxl.Ir()
    with ir.main_graph:
        t, seed = popxl.variable(x), popxl.variable(SEED)
        graph = ir.create_graph(ops.shaped_dropout, t, seed, shape, 0.25)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        call = ops.call_with_info(graph, t, seed)
        (g,) = ops.call(info.graph, t, inputs_dict=info.inputs_dict(call))
        stream = popxl.d2h_stream(g.shape, g.dtype)
        ops.host_store(stream, g)
        with pytest.raises(popart.popart_exception):
            ops.shaped_dropout(t, seed, (7, 40), 0.5)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[stream], given)


def test_dropout_ratio_out_of_range():
    with popxl.Ir().main_graph:
        t, seed = popxl.variable(random(3)), popxl.variable(SEED)
        for p in (1.0, -0.1, float("nan")):
            with pytest.raises(ValueError, match="wanted 0 <="):
                ops.dropout(t, seed, p)
            with pytest.raises(ValueError, match="wanted 0 <="):
                ops.shaped_dropout(t, seed, (3,), p)
