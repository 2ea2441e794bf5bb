"""Changes of the spatial resolution."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

_MODES = ("nearest", "linear", "cubic")
_NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}: wanted one of {', '.join(known)}; given {value!r}")


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """Resample every axis to another size.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        scale_factor: One positive factor for each axis, also those of samples and channels.
        mode: `nearest`, `linear` or `cubic` (Keys' kernel with A = -0.75). `linear` has no
            gradient.
        nearest_mode: How `nearest` rounds: `round_prefer_floor`, `round_prefer_ceil`, `floor` or
            `ceil`.
        coordinate_transformation_mode: How a position i of the result becomes one of `t`, of size
            n, for a factor s: `half_pixel` (i + 0.5) / s - 0.5; `pytorch_half_pixel` the same, and
            0 for a size of 1; `asymmetric` i / s; `align_corners` i * (n - 1) / (n * s - 1).
            `tf_crop_and_resize` is not supported.

    Returns:
        A new tensor with the dtype of `t`; a size d becomes floor(d * s).

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; a mode is another word.
        popart_exception: The number of factors is not the rank, nothing is left of an axis, or the
            mode of coordinates is `tf_crop_and_resize`, here or when a session is made.
    """
    check_inputs(t=t)
    _check_choice("mode", mode, _MODES)
    _check_choice("nearest_mode", nearest_mode, _NEAREST_MODES)
    _check_choice("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES)
    attributes: dict[str, object] = {
        "scales": [float(scale) for scale in scale_factor],
        "mode": mode,
        "nearest_mode": nearest_mode,
        "coordinate_transformation_mode": coordinate_transformation_mode,
    }
    return make("Resize", [t], attributes, name="interpolate_out", settings="interpolate")


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Average bilinear samples over the bins of regions of images.

    The same as `roi_align(aligned=False)` of torchvision. Only `t` has a gradient.

    Args:
        t: Images of shape (N, C, H, W); float16, bfloat16, float32 or float64.
        rois: Regions of shape (R, 4): x1, y1, x2, y2 in pixels of the unscaled image.
        batch_index: The image of each region: an integer tensor of shape (R,).
        output_size: The number of bins along H and W.
        spatial_scale: The factor from the coordinates of the regions to those of `t`.
        sampling_ratio: The number of samples along each side of a bin.

    Returns:
        A new tensor of shape (R, C, *output_size) with the dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes or dtypes do not fit, here or when a session is made.
    """
    check_inputs(t=t, rois=rois, batch_index=batch_index)
    attributes: dict[str, object] = {
        "output_size": [int(size) for size in output_size],
        "spatial_scale": float(spatial_scale),
        "sampling_ratio": int(sampling_ratio),
    }
    inputs = [t, rois, batch_index]
    return make("RoiAlign", inputs, attributes, name="roi_align_out", settings="roi_align")
