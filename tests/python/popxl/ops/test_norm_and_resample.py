"""Norms, resampling and regions of interest, against torch and plain loops."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random


def as_numpy(reference):
    return lambda *arrays: reference(*(torch.from_numpy(a) for a in arrays)).numpy()


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 4, 3, 2), (2, 4, 2, 2, 3)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(shape, groups):
    t, weight, bias = random(*shape), random(4, seed=1), random(4, seed=2)
    if shape == (3, 4) and groups == 4:
        t *= 0  # one element a group has no variance to divide by

    def reference(x, w, b):
        rows = x.reshape(x.shape[0], groups, -1)
        mean = rows.mean(-1, keepdim=True)
        deviation = ((rows - mean) ** 2).mean(-1, keepdim=True).add(1e-3).sqrt()
        per_channel = (1, 4) + (1,) * (x.dim() - 2)
        return ((rows - mean) / deviation).reshape(x.shape) * w.reshape(per_channel) + b.reshape(
            per_channel
        )

    def build(x, w, b):
        return ops.group_norm(x, w, b, groups, 1e-3)

    check(build, as_numpy(reference), t, weight, bias)
    check_gradient(build, reference, t, weight, bias)


def test_strided_channel_groups():
    t, weight, bias = random(2, 4, 3), random(4, seed=1), random(4, seed=2)
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().groupNormStridedChannelGrouping = True
    with ir.main_graph:
        y = ops.group_norm(*map(popxl.variable, (t, weight, bias)), 2)
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
    order = [0, 2, 1, 3]
    rows = t[:, order].reshape(2, 2, -1)
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    normal = normal.reshape(2, 4, 3)[:, np.argsort(order)]
    wanted = normal * weight[:, None] + bias[:, None]
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


def test_norms_of_float16():
    t = random(3, 8, dtype=np.float16)
    weight, bias = (random(8, dtype=np.float16, seed=i) for i in (1, 2))

    def reference(x, w, b):
        return functional.group_norm(x.float(), 1, w.float(), b.float()).half()

    check(ops.layer_norm, as_numpy(reference), t, weight, bias)
    given, seed = gradients(ops.layer_norm, t, weight, bias)
    leaves = [torch.from_numpy(a.astype(np.float32)).requires_grad_() for a in (t, weight, bias)]
    functional.group_norm(leaves[0], 1, leaves[1], leaves[2]).backward(
        torch.from_numpy(seed.astype(np.float32))
    )
    for g, leaf in zip(given, leaves, strict=True):
        assert g.dtype == np.float16
        np.testing.assert_allclose(g, leaf.grad, rtol=2e-2, atol=2e-2)


def test_norm_tensors_and_errors():
    with popxl.Ir().main_graph as graph:
        t, weight = popxl.variable(random(3, 4)), popxl.variable(random(4))
        before = len(graph.tensors)
        assert ops.group_norm(t, weight, weight, 2).name == "group_norm_out"
        assert len(graph.tensors) == before + 3
        op = graph._pb_graph.getOps()[-1]
        assert op.opType() == "GroupNormalization"
        assert [op.outTensor(i).id for i in (1, 2)] == ["group_norm_mean", "group_norm_inv_std_dev"]
        assert tuple(op.outInfo(1).shape()) == (6,)
        for bad in (3, 0, -1):
            with pytest.raises(popart.popart_exception):
                ops.group_norm(t, weight, weight, bad)
        for wrong in (random(3), random(4, 1)):
            with pytest.raises(popart.popart_exception):
                ops.layer_norm(t, popxl.variable(wrong), weight)
        with pytest.raises(popart.popart_exception):
            ops.layer_norm(weight, weight, weight)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)])
def test_batch_norm_inference(shape, dtype):
    t = random(*shape, dtype=dtype)
    parameters = [random(3, dtype=dtype, seed=i, low=0.2) for i in range(4)]
    per_channel = (1, 3) + (1,) * (len(shape) - 2)

    def reference(x, *rest):
        s, b, m, v = (p.astype(np.float32).reshape(per_channel) for p in rest)
        return (s * (x.astype(np.float32) - m) / np.sqrt(v + 1e-2) + b).astype(dtype)

    check(
        lambda *a: ops.batch_norm_inference(*a, epsilon=1e-2, momentum=0.5),
        reference,
        t,
        *parameters,
    )


def test_batch_norm_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        t, p = popxl.variable(random(2, 3, 4)), popxl.variable(random(3))
        assert ops.batch_norm_inference(t, p, p, p, p).name == "batch_norm_out"
        with pytest.raises(popart.popart_exception):
            ops.batch_norm_inference(popxl.variable(random(2, 3)), p, p, p, p)
        with pytest.raises(popart.popart_exception):
            ops.batch_norm_inference(t, p, p, p, popxl.variable(random(4)))
        graph = ir.create_graph(ops.batch_norm_inference, t, p, p, p, p)
        with pytest.raises(popart.popart_exception):
            popxl.transforms.autodiff(graph)


# --- interpolate ---------------------------------------------------------------------------------


def source(i, size, scale, transform):
    if transform == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if transform == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if size * scale > 1 else 0.0
    if transform == "asymmetric":
        return i / scale
    return i * (size - 1) / (size * scale - 1) if size * scale != 1 else 0.0


def rounded(x, mode):
    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    return np.copysign(np.floor(abs(x) + 0.5), x)


def keys(d):
    a, d = -0.75, abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights_of(size, scale, mode, nearest, transform):
    """The matrix that resamples one dimension."""
    matrix = np.zeros((int(np.floor(size * scale)), size))
    if scale == 1:
        return np.eye(size)
    for i, row in enumerate(matrix):
        x = source(i, size, scale, transform)
        if mode == "nearest":
            row[int(np.clip(rounded(x, nearest), 0, size - 1))] = 1
        elif mode == "linear":
            low, high = (int(np.clip(v, 0, size - 1)) for v in (np.floor(x), np.ceil(x)))
            fraction = max(x, 0) - np.floor(max(x, 0))
            row[low] += 1 - fraction
            row[high] += fraction
        else:
            base = int(np.floor(x))
            for offset in range(-1, 3):
                row[int(np.clip(base + offset, 0, size - 1))] += keys(x - base - offset)
    return matrix


def resampled(x, scales, mode, nearest, transform):
    for axis, scale in enumerate(scales):
        matrix = torch.from_numpy(weights_of(x.shape[axis], scale, mode, nearest, transform))
        x = torch.tensordot(matrix.to(x.dtype), x, ([1], [axis])).movedim(0, axis)
    return x


TRANSFORMS = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
SCALES = [(1.0, 1.0, 2.0, 2.0), (1.0, 1.0, 0.5, 1.5), (1.0, 2.0, 2.6, 0.3), (1.0, 1.0, 3.0, 1.0)]


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_interpolate(mode, transform, scales):
    x = random(2, 2, 4, 5)
    nearest_modes = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
    for nearest in nearest_modes if mode == "nearest" else nearest_modes[:1]:
        arguments = (scales, mode, nearest, transform)

        def reference(t, arguments=arguments):
            return resampled(t, *arguments)

        def build(t, arguments=arguments):
            return ops.interpolate(t, *arguments)

        check(build, as_numpy(reference), x)
        if mode != "linear":
            check_gradient(build, reference, x)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_interpolate_ranks_and_float16(mode):
    for shape, scales in (
        ((4,), (2.5,)),
        ((3, 4, 5), (1.0, 2.0, 0.6)),
        ((1, 2, 3, 4, 2), (1, 1, 2, 2, 2)),
    ):
        x = random(*shape)
        wanted = resampled(torch.from_numpy(x), scales, mode, "floor", "asymmetric").numpy()
        (given,) = outputs(
            lambda t, s=scales: ops.interpolate(t, s, mode, "floor", "asymmetric"), x
        )
        np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
        (half,) = outputs(
            lambda t, s=scales: ops.interpolate(t, s, mode, "floor", "asymmetric"),
            x.astype(np.float16),
        )
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, wanted, rtol=1e-2, atol=1e-2)


def test_interpolate_matches_torch():
    x = random(2, 3, 5, 4)
    check(
        lambda t: ops.interpolate(t, (1.0, 1.0, 2.0, 3.0), "linear"),
        as_numpy(lambda t: functional.interpolate(t, scale_factor=(2, 3), mode="bilinear")),
        x,
    )
    check(
        lambda t: ops.interpolate(t, (1.0, 1.0, 2.0, 3.0), "cubic"),
        as_numpy(lambda t: functional.interpolate(t, scale_factor=(2, 3), mode="bicubic")),
        x,
    )


def test_interpolate_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(random(1, 1, 3, 3))
        for bad in (
            {"mode": "area"},
            {"nearest_mode": "up"},
            {"coordinate_transformation_mode": "x"},
        ):
            with pytest.raises(ValueError):
                ops.interpolate(t, **bad)
        for scales in ((2.0, 2.0), (1.0, 1.0, 0.1, 1.0), (1.0, 1.0, -1.0, 1.0)):
            with pytest.raises(popart.popart_exception):
                ops.interpolate(t, scales)
        graph = ir.create_graph(ops.interpolate, t, (1.0, 1.0, 2.0, 2.0), "linear")
        with pytest.raises(
            popart.popart_exception, match="'linear' is not supported when training"
        ):
            popxl.transforms.autodiff(graph)
    with pytest.raises(popart.popart_exception, match="tf_crop_and_resize"):
        outputs(
            lambda x: ops.interpolate(
                x, (1.0, 2.0), coordinate_transformation_mode="tf_crop_and_resize"
            ),
            random(2, 3),
        )


# --- roi_align -----------------------------------------------------------------------------------


def bilinear(image, y, x):
    """A sample of (C, H, W); zero more than one pixel outside."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return image[:, 0, 0] * 0
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = min(int(y), height - 1), min(int(x), width - 1)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    fy = y - y0 if y0 < height - 1 else 0.0
    fx = x - x0 if x0 < width - 1 else 0.0
    top = image[:, y0, x0] * (1 - fx) + image[:, y0, x1] * fx
    bottom = image[:, y1, x0] * (1 - fx) + image[:, y1, x1] * fx
    return top * (1 - fy) + bottom * fy


def roi_align(t, rois, batch_index, size, scale, samples):
    results = []
    for roi, batch in zip(rois.tolist(), batch_index.tolist(), strict=True):
        x1, y1, x2, y2 = (v * scale for v in roi)
        bin_h, bin_w = max(y2 - y1, 1.0) / size[0], max(x2 - x1, 1.0) / size[1]
        for i in range(size[0]):
            for j in range(size[1]):
                points = [
                    bilinear(
                        t[batch],
                        y1 + (i + (a + 0.5) / samples) * bin_h,
                        x1 + (j + (b + 0.5) / samples) * bin_w,
                    )
                    for a in range(samples)
                    for b in range(samples)
                ]
                results.append(sum(points) / samples**2)
    stacked = torch.stack(results).reshape(len(rois), *size, t.shape[1])
    return stacked.permute(0, 3, 1, 2)


ROIS = np.array([[0, 0, 8, 8], [2, 3, 5, 12], [1, 1, 1.2, 1.1], [-4, -6, 30, 20]], np.float32)


@pytest.mark.parametrize(
    ("size", "scale", "samples"), [((2, 2), 0.5, 2), ((3, 1), 1.0, 1), ((1, 4), 0.25, 3)]
)
def test_roi_align(size, scale, samples):
    t, batch = random(2, 3, 7, 6), np.array([0, 1, 1, 0], np.int32)

    def build(x, r, b):
        return ops.roi_align(x, r, b, size, scale, samples)

    def reference(x, r, b):
        return roi_align(x, r, b, size, scale, samples)

    check(build, as_numpy(reference), t, ROIS, batch)
    (half,) = outputs(build, t.astype(np.float16), ROIS.astype(np.float16), batch)
    assert half.dtype == np.float16
    wanted = as_numpy(reference)(t, ROIS.astype(np.float16), batch)
    np.testing.assert_allclose(half, wanted, rtol=2e-2, atol=2e-2)
    ir = popxl.Ir()
    with ir.main_graph:
        tensors = [popxl.variable(a) for a in (t, ROIS, batch)]
        graph = ir.create_graph(build, *tensors)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        seed = popxl.variable(np.ones(graph.outputs[0].shape, np.float32))
        call = ops.call_with_info(graph, *tensors)
        (g,) = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        stream = popxl.d2h_stream(g.shape, g.dtype)
        ops.host_store(stream, g)
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
    leaf = torch.from_numpy(t).requires_grad_()
    reference(leaf, torch.from_numpy(ROIS), torch.from_numpy(batch)).sum().backward()
    np.testing.assert_allclose(given, leaf.grad, rtol=1e-4, atol=1e-4)


def test_roi_align_errors():
    with popxl.Ir().main_graph:
        t, rois = popxl.variable(random(1, 2, 4, 4)), popxl.variable(ROIS)
        batch = popxl.variable(np.zeros(4, np.int32))
        assert ops.roi_align(t, rois, batch, (2, 2), 1.0, 1).name == "roi_align_out"
        for arguments in (
            (popxl.variable(random(2, 4, 4)), rois, batch),
            (t, popxl.variable(random(4, 3)), batch),
            (t, rois, popxl.variable(np.zeros((4, 1), np.int32))),
            (t, rois, popxl.variable(np.zeros(3, np.int32))),
        ):
            with pytest.raises(popart.popart_exception):
                ops.roi_align(*arguments, (2, 2), 1.0, 1)
        for size in ((2,), (2, 0), (2, 2, 2)):
            with pytest.raises(popart.popart_exception):
                ops.roi_align(t, rois, batch, size, 1.0, 1)
