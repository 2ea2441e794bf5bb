"""Changes of the spatial resolution."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor

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
    """Resamples to floor(size * scale) elements per dimension."""
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
    """Averages of bilinear samples over the bins of each region (x1, y1, x2, y2)."""
    check_inputs(t=t, rois=rois, batch_index=batch_index)
    attributes: dict[str, object] = {
        "output_size": [int(size) for size in output_size],
        "spatial_scale": float(spatial_scale),
        "sampling_ratio": int(sampling_ratio),
    }
    inputs = [t, rois, batch_index]
    return make("RoiAlign", inputs, attributes, name="roi_align_out", settings="roi_align")
