"""Graphs that may be built but not run: the session refuses them, with the op and the user's line.

The values of what both builds and runs stand in test_values_at_the_edges.py, the table of all ops
in test_every_dtype.py.
"""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import var_updates
from tests.python.popxl.ops.op_testing import outputs, run

INTS = np.array([[1, 2], [3, 4]], np.int32)
FLOATS = INTS.astype(np.float32)
SCALES = (1.0, 1.0, 2.0, 2.0)


def refused(build, *arrays, match):
    """The session of what `build` makes is refused with `match` and a line of this file."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = [popxl.variable(a, name=f"v{i}") for i, a in enumerate(arrays)]
        t = build(*variables)
        if t is not None:
            ops.host_store(popxl.d2h_stream(t.shape, t.dtype), t)
    with pytest.raises(popart.popart_exception, match=match) as caught:
        popxl.Session(ir)
    assert __file__.rpartition("/")[2] in str(caught.value)


UPDATES = {
    "accumulate_": lambda t: var_updates.accumulate_(t, t, 0.5),
    "accumulate_square_": lambda t: var_updates.accumulate_square_(t, t),
    "accumulate_mean_": lambda t: var_updates.accumulate_mean_(t, t, 1),
    "accumulate_moving_average_": lambda t: var_updates.accumulate_moving_average_(t, t, 0.5),
    "adam_updater": lambda t: var_updates.adam_updater(t, t),
    "lamb_updater": lambda t: var_updates.lamb_updater(t, t),
    "adamax_updater": lambda t: var_updates.adamax_updater(
        t, t, time_step=popxl.variable(np.float32(0))
    ),
    "adam_var_update": lambda t: var_updates.adam_var_update(t, t, *[popxl.constant(1.0)] * 2, 0.1),
    "lamb_square": ops.lamb_square,
    "swish": ops.swish,
    "gelu_": ops.gelu_,
    "cos": ops.cos,
    "logsumexp": ops.logsumexp,
    "softmax": lambda t: ops.softmax(t, 1),
}


@pytest.mark.parametrize("name", UPDATES)
def test_integers_are_refused_by_the_session(name):
    refused(UPDATES[name], INTS, match="wanted float16, bfloat16, float32 or float64.* int32")


def test_what_does_not_run_is_not_refused():
    """An op whose result nobody reads, and a graph that is not called."""
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(INTS)
        ops.exp(v)
        ir.create_graph(ops.sqrt, popxl.TensorSpec((2,), popxl.int32))
        stream = popxl.d2h_stream(v.shape, v.dtype)
        ops.host_store(stream, v + 1)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], INTS + 1)


def test_ops_of_called_graphs_are_named():
    def build(v):
        graph = popxl.gcg().ir.create_graph(lambda t: ops.log(t), v)
        return ops.call(graph, v)[0]

    refused(build, INTS, match=r"Log 'log'")


def test_autodiff_of_what_cannot_run():
    """The graph is differentiated; the session of the two is refused."""

    def build(v):
        ir = popxl.gcg().ir
        graph = ir.create_graph(lambda t: ops.softmax(ops.exp(t), 1), v)
        gradients = popxl.transforms.autodiff(graph)
        call = ops.call_with_info(graph, v)
        return ops.call(gradients.graph, v, inputs_dict=gradients.inputs_dict(call))[0]

    refused(build, INTS, match="wanted float16, bfloat16, float32 or float64")


def test_autodiff_names_its_own_fault_first():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(INTS)

        def modify(t: popxl.TensorByRef):
            return var_updates.accumulate_(t, t, 0.5)

        graph = ir.create_graph(modify, v)
        with pytest.raises(popart.popart_exception, match="contains a modifying op"):
            popxl.transforms.autodiff(graph)


def test_operands_of_broadcasting_ops_agree_while_building():
    with popxl.Ir().main_graph:
        a, b = popxl.variable(FLOATS), popxl.variable(INTS)
        for op in (ops.add, ops.sub, ops.mul, ops.div, ops.fmod, ops.pow, ops.maximum, ops.add_):
            with pytest.raises(popart.popart_exception, match="incompatible types"):
                op(a, b)
        with pytest.raises(popart.popart_exception, match="incompatible types"):
            ops.where(b, a, b)


def test_compared_tensors_agree_when_they_run():
    refused(ops.equal, FLOATS, INTS, match="Equal.*incompatible types float32 and int32")
    refused(ops.greater, FLOATS, INTS, match="Greater.*incompatible types float32 and int32")


def test_indices_are_integers_when_they_run():
    index = np.array([1.0], np.float32)
    refused(ops.gather, FLOATS, index, match="Gather.*wanted an integer dtype")
    refused(ops.scatter, FLOATS, FLOATS, FLOATS, match="Scatter.*wanted an integer dtype")
    refused(
        lambda t, i: ops.dynamic_slice(t, i, [0], [1], True),
        FLOATS,
        index,
        match="DynamicSlice.*wanted an int32 or uint32 index",
    )
    refused(
        lambda t, i: ops.onehot(t, popxl.constant(2), i, -1),
        FLOATS,
        np.zeros(2, np.float32),
        match="OneHot.*wanted an integer dtype",
    )


def test_joined_values_have_one_dtype_when_they_run():
    rows = np.zeros((2, 2), np.int32)
    refused(ops.scatter, FLOATS, rows, INTS, match="Scatter.*wanted values of t's dtype")
    refused(
        lambda t, i, initial: ops.scatter_reduce(t, i, "sum", initial),
        FLOATS,
        rows,
        INTS,
        match="ScatterReduce.*wanted initial_values of data's dtype",
    )
    refused(
        lambda t, x: ops.identity(var_updates.copy_var_update_(t, x)),
        FLOATS,
        INTS,
        match="CopyVarUpdate.*wanted t and X of the same dtype",
    )


def test_labels():
    with popxl.Ir().main_graph:
        probs, labels = popxl.variable(FLOATS), popxl.variable(FLOATS[0])
        with pytest.raises(popart.popart_exception, match="wanted an integer tensor for 'labels'"):
            ops.nll_loss(probs, labels)
        with pytest.raises(popart.popart_exception, match="wanted labels of shape"):
            ops.nll_loss(probs, popxl.variable(INTS))
        with pytest.raises(popart.popart_exception, match="one label for each of the 2 rows"):
            ops.nll_loss_with_softmax_grad(probs, popxl.variable(INTS))
    refused(
        lambda p, t: ops.nll_loss_with_softmax_grad(p, t)[0],
        FLOATS,
        FLOATS[0],
        match="wanted an integer dtype at input 1",
    )


def test_dynamic_update_compares_shapes_when_it_runs():
    index, wrong = np.array([0], np.int32), np.zeros((2, 2), np.float32)
    for op in (ops.dynamic_update, ops.dynamic_update_):

        def build(t, i, u, op=op):
            result = op(t, i, u, [0], [1], True)
            assert result.shape == t.shape
            return result

        refused(build, FLOATS, index, wrong, match=r"wanted t_update of shape \(1, 2\)")
        refused(build, FLOATS, index, INTS[:1], match="t's dtype")


def test_dynamic_slices_take_an_axis_once():
    with popxl.Ir().main_graph:
        t, index = popxl.variable(FLOATS), popxl.variable(np.array([0, 1], np.int32))
        update = popxl.variable(FLOATS[:1, :1])
        with pytest.raises(popart.popart_exception, match=r"wanted each axis once, got \[0, 0\]"):
            ops.dynamic_slice(t, index, [0, 0], [1, 1], True)
        for op in (ops.dynamic_update, ops.dynamic_update_):
            with pytest.raises(popart.popart_exception, match="wanted each axis once"):
                op(t, index, update, [1, 1], [1, 1], True)


def test_adam_var_update_without_a_learning_rate():
    def build(t):
        one = popxl.constant(1.0)
        result = var_updates.adam_var_update(t, t, one, one, max_weight_norm=2.0)
        assert [i.name for i in result._pb.producer.inputs if i is not None][:2] == ["v0", "v0"]
        return result

    refused(build, FLOATS, match="AdamVarUpdate.*wanted a learning_rate")


def test_updaters_report_the_weight_before_the_betas():
    with popxl.Ir().main_graph:
        m, step = popxl.variable(FLOATS), popxl.variable(np.float32(0))
        for updater in (var_updates.adam_updater, var_updates.lamb_updater):
            with pytest.raises(ValueError, match="Weight decay requires weight"):
                updater(m, m, time_step=step, weight_decay=0.1)
            with pytest.raises(ValueError, match="Bias correction requires"):
                updater(m, m, weight=m, time_step=step, weight_decay=0.1)


def test_conv_transpose_reports_the_shape_of_its_formula():
    image, weight = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.float32)

    def transposed(padding):
        def build(t, w):
            result = ops.conv_transpose(t, w, padding=padding)
            assert result.shape == (1, 1, 3 - padding[0] - padding[2], 3)
            return result

        return build

    refused(transposed((2, 0, 1, 0)), image, weight, match="ConvTranspose.*windows that fit")
    assert outputs(transposed((1, 0, 1, 0)), image, weight)[0].shape == (1, 1, 1, 3)
    with popxl.Ir().main_graph, pytest.raises(popart.popart_exception):
        t = popxl.variable(image)
        ops.conv_transpose(t, t, padding=(2, 0, 2, 0))


@pytest.mark.parametrize("pool", [ops.average_pool, ops.max_pool])
def test_pools_report_the_shape_of_their_formula(pool):
    image = np.zeros((1, 1, 4, 4), np.float32)

    def padded(t):
        result = pool(t, (2, 2), out_pads=(1, 0, 0, 2))
        assert result.shape == (1, 1, 4, 5)
        return result

    def spread(t):
        result = pool(t, (2, 2), in_dilations=(2, 1))
        assert result.shape == (1, 1, 6, 3)
        return result

    refused(padded, image, match="wanted out_pads of 0 and in_dilations of 1")
    refused(spread, image, match="wanted out_pads of 0 and in_dilations of 1")


def test_windows_fit_when_they_run():
    image = np.zeros((1, 1, 4, 4), np.float32)
    kernel = np.zeros((1, 1, 5, 1), np.float32)
    refused(ops.conv, image, kernel, match="Conv.*dimension 0 of size 4 has room for 0")
    refused(lambda t: ops.max_pool(t, (1, 5)), image, match="MaxPool.*dimension 1 of size 4")


def test_norms_and_convolutions_want_one_dtype_when_they_run():
    weight = np.zeros(2, np.float16)
    refused(
        lambda t, w: ops.layer_norm(t, w, w),
        FLOATS,
        weight,
        match="GroupNormalization.*wanted inputs of one dtype",
    )
    image = np.zeros((1, 1, 4, 4), np.float32)
    refused(
        lambda t, w: ops.batch_norm_inference(t, w, w, w, w),
        np.zeros((1, 1, 4), np.float32),
        np.zeros(1, np.float16),
        match="BatchNormalization.*wanted inputs of one dtype",
    )
    refused(
        ops.conv,
        image,
        np.zeros((1, 1, 2, 2), np.float16),
        match="Conv.*wanted operands of the same dtype",
    )


def test_kernels_that_are_missing_are_refused_by_op_and_line():
    refused(
        lambda t: ops.sum(t),
        np.ones(3, np.bool_),
        match="ReduceSum.*wanted an integer dtype, float16",
    )
    refused(lambda t: ops.interpolate(t, SCALES), INTS[None, None], match="Resize.*float16")


def test_float8_and_seed_rules_stay_with_building():
    with popxl.Ir().main_graph:
        t = popxl.variable(FLOATS)
        codes = popxl.variable(np.zeros((2, 2), popxl.float8_143.as_numpy()))
        scale = popxl.constant(0, popxl.int32)
        with pytest.raises(popart.popart_exception, match="use matmul_pow2scaled"):
            ops.matmul(codes, codes)
        with pytest.raises(TypeError, match="Scaled matmul operands"):
            ops.matmul_pow2scaled(t, t, scale)
        with pytest.raises(popart.popart_exception, match="wanted a float8 dtype"):
            ops.pow2scale_cast_from_fp8(t, scale, popxl.float16)
        with pytest.raises(ValueError, match="seed Tensor must be"):
            ops.dropout(t, popxl.variable(INTS), p=0.5)
        with pytest.raises(TypeError, match="must have the same type"):
            ops.concat([t, codes])


def test_unsigned_offsets_are_reported_as_they_are():
    for value, dtype in ((2**32 - 1, popxl.uint32), (-1, popxl.int32), (7, popxl.uint32)):
        ir = popxl.Ir()
        with ir.main_graph:
            buffer = popxl.remote_buffer((2,), popxl.float32, entries=3)
            stream = popxl.h2d_stream((), dtype)
            ops.remote_load(buffer, ops.host_load(stream))
            ops.remote_store(buffer, ops.host_load(stream), popxl.variable(FLOATS[0]))
        data = np.array(value, dtype.as_numpy())
        with (
            popxl.Session(ir, "cpu") as session,
            pytest.raises(popart.popart_runtime_error, match=f"asked for entry {value}$"),
        ):
            session.run({stream: data})


def test_wrong_host_shapes_are_described():
    for options in ({}, {"replication": 2}):
        ir = popxl.Ir(**options)
        with ir.main_graph:
            stream = popxl.h2d_stream((4, 3), popxl.float32)
            out = popxl.d2h_stream((4, 3), popxl.float32)
            ops.host_store(out, ops.host_load(stream))
        wrong = np.zeros((*([2] if options else []), 4, 5), np.float32)
        with (
            popxl.Session(ir) as session,
            pytest.raises(ValueError, match=r"the last axes must have the sizes \(4, 3\)"),
        ):
            session.run({stream: wrong})


def test_a_slice_of_everything_is_a_copy():
    x = np.arange(4, dtype=np.float32)
    for key in (slice(None), slice(0, 4), (slice(None),), slice(None, None, 1)):

        def build(t, key=key):
            y = t[key]
            assert y._pb.producer.kind == "Slice"
            y += 1
            return y

        (written,), (source,) = run(build, x)
        np.testing.assert_array_equal(written, x + 1)
        np.testing.assert_array_equal(source, x)
