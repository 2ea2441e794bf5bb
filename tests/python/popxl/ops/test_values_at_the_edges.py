"""Values at the edges of dtypes: exact counts, infinities, wrapped powers, casts out of range."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import popxl
from popxl import ops
from popxl.ops import collectives, var_updates
from tests.python.popxl.ops.op_testing import check_gradient, gradients, outputs, run
from tests.python.popxl.replica_testing import run_replicas, store

INF = np.inf
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


# --- means ---------------------------------------------------------------------------------------


def test_mean_of_many_halves_is_exact_in_its_count():
    x = np.full(70_000, 1e-3, np.float16)
    (result,) = outputs(ops.mean, x)
    assert result == np.float16(x.astype(np.float64).mean())
    (gradient,), weight = gradients(ops.mean, x)
    wanted = np.float16(np.float32(weight) / np.float32(70_000))
    assert wanted != 0
    np.testing.assert_array_equal(gradient, np.full(70_000, wanted))


def test_mean_of_large_halves_does_not_overflow():
    x = np.full((3, 40), 60_000, np.float16)
    np.testing.assert_array_equal(outputs(lambda t: ops.mean(t, 1), x)[0], x[:, 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_mean_of_narrow_integers_counts_beyond_their_range(dtype):
    x = np.arange(1000).astype(dtype)
    wanted = np.trunc(x.astype(np.int64).sum() / 1000).astype(dtype)
    np.testing.assert_array_equal(outputs(ops.mean, x)[0], wanted)


# --- logsumexp -----------------------------------------------------------------------------------

ROWS = [[1, INF, 2], [-INF, -INF, -INF], [INF, INF, -INF], [0.5, -INF, 3], [np.nan, INF, 0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_logsumexp_of_infinite_rows(dtype):
    x = np.array(ROWS, dtype)
    wanted = torch.logsumexp(torch.from_numpy(x.astype(np.float32)), 1).numpy().astype(dtype)
    assert list(wanted[:3]) == [INF, -INF, INF]
    (result,) = outputs(lambda t: ops.logsumexp(t, 1), x)
    np.testing.assert_allclose(result, wanted, rtol=1e-3)


def test_logsumexp_of_many_halves():
    x = np.zeros(70_000, np.float16)
    assert outputs(ops.logsumexp, x)[0] == np.float16(np.log(70_000))


def test_norms_of_many_halves_fit_where_their_squares_do_not():
    x = np.ones(70_000, np.float16)
    assert outputs(ops.l2, x)[0] == np.float16(np.sqrt(70_000))
    (gradient,), weight = gradients(ops.l2, x)
    np.testing.assert_allclose(
        gradient, np.full(70_000, float(weight) / np.sqrt(70_000)), rtol=2e-3
    )


def test_logarithms_of_sums_of_many_halves():
    x = np.ones(70_000, np.float16)
    assert outputs(ops.logsum, x)[0] == np.float16(np.log(70_000))
    (gradient,), weight = gradients(ops.logsum, x)
    np.testing.assert_allclose(gradient, np.full(70_000, float(weight) / 70_000), atol=3e-8)


# --- pow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers_wrap(dtype):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    base = rng.integers(limits.min, limits.max, (4, 40), dtype, endpoint=True)
    base[0, :4] = [limits.min, limits.max, 3, 0]
    exponent = rng.integers(0, 100, base.shape).astype(dtype)
    exponent[1, :3] = [0, 1, limits.max]
    bits = 8 * np.dtype(dtype).itemsize
    wanted = [pow(int(b), int(e), 2**bits) for b, e in zip(base.flat, exponent.flat, strict=True)]
    wanted = np.array(wanted, np.uint64).astype(dtype).reshape(base.shape)
    np.testing.assert_array_equal(outputs(ops.pow, base, exponent)[0], wanted)
    # Constants are folded by other code.
    folded = outputs(
        lambda t: ops.pow(popxl.constant(base, downcast=False), popxl.constant(exponent, t.dtype)),
        base,
    )
    np.testing.assert_array_equal(folded[0], wanted)


def test_negative_exponents_of_integers():
    base = np.array([1, -1, -1, 2, -2, 0], np.int32)
    exponent = np.array([-5, -5, -4, -1, -1, -1], np.int32)
    wanted = torch.pow(torch.from_numpy(base), torch.from_numpy(exponent)).numpy()
    np.testing.assert_array_equal(outputs(ops.pow, base, exponent)[0], wanted)


# --- casts ---------------------------------------------------------------------------------------

EDGES = [np.nan, INF, -INF, -1, -0.75, 0.75, 127.5, 128, -128.5, -129, 255.5, 256, 300, 4e4, -4e4]
EDGES += [7e4, 2.0**31, -(2.0**31), -(2.0**33), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, -(2.0**65)]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_floats_out_of_range_become_the_end_of_the_range(source, target):
    with np.errstate(over="ignore"):
        x = np.array(EDGES, source)
    limits = np.iinfo(target)
    wanted = []
    for value in x.astype(np.float64):
        finite = np.clip(np.nan_to_num(value, nan=0.0), -1e30, 1e30)
        wanted.append(min(max(int(finite), limits.min), limits.max))
    wanted = np.array(wanted, target)
    dtype = popxl.dtype.as_dtype(np.dtype(target))

    def both(t):
        # More elements than constants have that are folded, and fewer.
        return ops.cast(t, dtype), ops.cast(popxl.constant(x, downcast=False), dtype)

    for result in outputs(both, x):
        np.testing.assert_array_equal(result, wanted)


def test_an_integer_is_scaled_by_fractions():
    x, y = np.array([1, 5, -7], np.int32), np.array([2, 2, 3], np.int32)
    (result,) = outputs(lambda a, b: ops.scaled_add(a, b, 0.5, 1.0), x, y)
    np.testing.assert_array_equal(result, np.trunc(0.5 * x + y).astype(np.int32))
    _, (scaled, _) = run(lambda t, f: var_updates.accumulator_scale_(t, f), x, np.float32(0.5))
    np.testing.assert_array_equal(scaled, np.trunc(0.5 * x).astype(np.int32))


# --- matmul --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [(np.float16, np.float32), (np.float32, np.float16), (np.float32, np.float64)],
)
def test_matmul_of_several_dtypes(left, right):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)).astype(left), rng.normal(size=(2, 4, 5)).astype(right)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    (result,) = outputs(ops.matmul, a, b)
    assert result.dtype == left
    np.testing.assert_allclose(result, wanted, rtol=2 * np.finfo(left).eps, atol=1e-3)


def test_gradient_of_matmul_of_several_dtypes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float16)
    (da, db), g = gradients(ops.matmul, a, b)
    assert (da.dtype, db.dtype) == (a.dtype, b.dtype)
    np.testing.assert_allclose(da, g @ b.T.astype(np.float32), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(db, a.T @ g, rtol=2e-3, atol=2e-3)


# --- losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_of_another_shape(reduction):
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(40, 128)).astype(np.float32)
    labels = rng.integers(0, 128, (2, 20)).astype(np.int32)
    t = torch.from_numpy(logits).requires_grad_()
    loss = functional.cross_entropy(
        t, torch.from_numpy(labels.reshape(-1).astype(np.int64)), reduction=reduction
    )
    loss.sum().backward()

    def build(p, label):
        result = ops.nll_loss_with_softmax_grad(ops.softmax(p, 1), label, reduction=reduction)
        assert result[0].shape == (labels.shape if reduction == "none" else ())
        return result

    given, dx = outputs(build, logits, labels)
    np.testing.assert_allclose(given.reshape(-1), loss.detach().numpy().reshape(-1), rtol=1e-4)
    np.testing.assert_allclose(dx, t.grad.numpy(), atol=1e-6)


# --- updaters ------------------------------------------------------------------------------------


def divided(moment, beta, step):
    """`moment` / (1 - beta^step), divisor and quotient rounded to the dtype of `moment`."""
    divisor = moment.dtype.type(1.0 - np.float64(np.float32(beta)) ** step)
    return (moment.astype(np.float32) / np.float32(divisor)).astype(moment.dtype)


@pytest.mark.parametrize("v_dtype", [np.float16, np.float32])
@pytest.mark.parametrize("m_dtype", [np.float16, np.float32])
@pytest.mark.parametrize("kind", ["adam_updater", "lamb_updater", "adamax_updater"])
def test_moments_are_divided_in_their_own_dtype(kind, m_dtype, v_dtype):
    rng = np.random.default_rng(5)
    g = rng.uniform(-1, 1, 300)
    m, v = (0.1 * g).astype(m_dtype), (0.01 * g * g).astype(v_dtype)
    betas = {"beta1": 0.9} if kind == "adamax_updater" else {"beta1": 0.9, "beta2": 0.99}
    updater = getattr(var_updates, kind)
    (update,) = outputs(
        lambda a, b, t: updater(a, b, time_step=t, epsilon=1e-3, **betas), m, v, np.float32(2)
    )
    mc = divided(m, 0.9, 3).astype(np.float32)
    if np.dtype(v_dtype).itemsize < np.dtype(m_dtype).itemsize:
        mc = mc.astype(v_dtype).astype(np.float32)
    size = v.astype(np.float32)
    if kind != "adamax_updater":
        size = np.sqrt(divided(v, 0.99, 3).astype(np.float32))
    wanted = (mc / (size + np.float32(1e-3))).astype(m_dtype)
    np.testing.assert_array_equal(update, wanted)


def test_first_update_of_a_half_is_one():
    # What the moving averages make of a gradient of 0.234.
    m = np.array([np.float16(np.float16(0.1) * np.float16(0.234))])
    v = np.array([np.float32(1.0 - np.float32(0.999)) * np.float32(0.234) ** 2], np.float32)
    (update,) = outputs(
        lambda a, b, t: var_updates.adam_updater(
            a, b, time_step=t, beta1=0.9, beta2=0.999, epsilon=1e-7
        ),
        m,
        v,
        np.float32(0),
    )
    assert update == 1.0


# --- interpolate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [2.0, 3.0, 1.7, 0.6])
def test_linear_interpolation_is_done_in_float32(scale):
    x = np.random.default_rng(2).normal(size=(2, 3, 11)).astype(np.float32)
    f = np.float32
    size = int(np.floor(11 * scale))
    coordinate = (np.arange(size, dtype=f) + f(0.5)) / f(scale) - f(0.5)
    inside = np.maximum(coordinate, f(0))
    weight = inside - np.floor(inside)
    low = np.clip(np.floor(coordinate), 0, 10).astype(int)
    high = np.clip(np.ceil(coordinate), 0, 10).astype(int)
    wanted = x[:, :, low] * (f(1) - weight) + x[:, :, high] * weight
    (result,) = outputs(lambda t: ops.interpolate(t, (1.0, 1.0, scale), "linear"), x)
    np.testing.assert_array_equal(result, wanted)


# --- subsample -----------------------------------------------------------------------------------


def test_strides_of_numpy():
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for strides in (np.array([2]), np.array([2, 3]), np.int64(2), np.array([2, 3], np.uint8)):
        given = np.array(strides)
        steps = [*np.atleast_1d(given), 1][:2]
        np.testing.assert_array_equal(
            outputs(lambda t, s=strides: ops.subsample(t, s), x)[0], x[:: steps[0], :: steps[1]]
        )
        np.testing.assert_array_equal(strides, given)
    strides = [2]
    outputs(lambda t: ops.subsample(t, strides), x)
    assert strides == [2, 1]


# --- gathers of replicas -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152])
def test_gather_of_float8(dtype):
    codes = np.random.default_rng(0).integers(0, 256, (2, 3, 4)).astype(np.uint8)
    x = codes.view(dtype.as_numpy())
    gathered = run_replicas(lambda ir, t: collectives.replicated_all_gather(t), x)
    for replica in range(2):
        given = np.ascontiguousarray(gathered[replica]).view(np.uint8)
        np.testing.assert_array_equal(given, codes.reshape(6, 4))


@pytest.mark.parametrize("slot", [8, 11, 40])
def test_gather_of_slots_larger_than_a_part(slot):
    data = np.arange(15, dtype=np.float32).reshape(3, 5)
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((slot,), popxl.float32)
        variable = popxl.remote_replica_sharded_variable(data, buffer)
        shard = ops.remote_load(buffer, 0)
        whole = collectives.replicated_all_gather(shard)
        streams = [store(whole)]
        doubled = ops.scaled_add_(shard, shard)
        ops.remote_store(buffer, 0, doubled)
    assert whole.shape == (3, 5)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
        session.weights_to_host()
    for replica in range(2):
        np.testing.assert_array_equal(results[streams[0]][replica], data)
    np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * data)


def test_gradient_of_a_gather_to_the_meta_shape():
    data = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32)

    def build(ir, x):
        shard = collectives.replica_sharded_slice(x)
        graph = ir.create_graph(
            lambda t: ops.mul(*[collectives.replicated_all_gather(t)] * 2),
            popxl.TensorSpec(shard.shape, shard.dtype, shard.meta_shape),
        )
        gradient = popxl.transforms.autodiff(graph)
        call = ops.call_with_info(graph, shard)
        (dx,) = ops.call(gradient.graph, x, inputs_dict=gradient.inputs_dict(call))
        assert (dx.shape, dx.meta_shape) == ((8,), ())
        return dx

    dx = run_replicas(build, data)
    whole = np.concatenate([np.pad(d.reshape(-1), (0, 1))[8 * r :][:8] for r, d in enumerate(data)])
    for replica in range(2):
        product = 2 * np.pad(data[replica].reshape(-1), (0, 1)) * whole
        np.testing.assert_allclose(dx[replica], product[8 * replica :][:8], rtol=1e-6)


def test_gradient_of_a_gather_of_larger_slots():
    """Slots have 10 elements and the whole 15: the first replica holds 10, the second 5."""
    data = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32)

    def build(ir, g):
        graph = ir.create_graph(
            collectives.replicated_all_gather,
            popxl.TensorSpec((10,), popxl.float32, (3, 5)),
        )
        gradient = popxl.transforms.autodiff(graph)
        (dx,) = ops.call(gradient.graph, g)
        assert (dx.shape, dx.meta_shape) == ((10,), ())
        return dx

    dx = run_replicas(build, data)
    for replica in range(2):
        wanted = np.pad(data[replica].reshape(-1), (0, 5))[10 * replica :][:10]
        np.testing.assert_array_equal(dx[replica], wanted)


def test_roi_align_with_rois_of_another_dtype():
    image = np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)
    rois = np.array([[0, 0, 4, 4], [1, 1, 5, 3]])
    batch = np.zeros(2, np.int32)
    dtypes = (np.float32, np.float16, np.float64)

    def build(t, r, b):
        return ops.roi_align(t, r, b, (2, 2), 1.0, 2)

    results = [outputs(build, image, rois.astype(dtype), batch) for dtype in dtypes]
    for result in results[1:]:
        np.testing.assert_array_equal(result[0], results[0][0])


def test_gradient_of_mean():
    x = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    check_gradient(lambda t: ops.mean(t, 1), lambda t: t.mean(1), x)
