"""Padding, and windows of a tensor as columns."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor


def pad(
    t: Tensor, pads: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Add elements before and after those of each axis, as `numpy.pad` does.

    Args:
        t: The operand; any dtype but float8.
        pads: For each axis the number of elements before it and after it. In the constant mode a
            negative number leaves away so many.
        mode: What is added: "constant": `value`; "reflect": the elements next to the edge in
            reverse, without the edge itself, fewer than the axis has; "edge": the edge.
        value: The value of the constant mode.

    Returns:
        A new tensor with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; there is no such mode.
        popart_exception: There is another number of pads than axes, or too many elements are to
            be reflected or left away.
    """
    check_inputs(t=t)
    pairs = [(int(before), int(after)) for before, after in pads]
    attributes: dict[str, object] = {
        "pads": [before for before, _ in pairs] + [after for _, after in pairs],
        "mode": mode,
        "value": float(value),
    }
    return make("Pad", [t], attributes, name="pad_out", settings="pad")


def _window(
    kernel_size: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    dilation: Sequence[int] | None,
) -> dict[str, object]:
    sides = [int(size) for size in padding or ()]
    return {
        "kernel_size": [int(size) for size in kernel_size],
        "strides": [int(step) for step in stride or ()],
        "pads": sides + sides,
        "dilations": [int(step) for step in dilation or ()],
    }


def unfold(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
) -> Tensor:
    """Make a column of the elements under each window (im2col), as `torch.nn.functional.unfold`.

    Args:
        t: The operand (N, C, spatial...) with 1 to 3 spatial axes; any dtype but float8.
        kernel_size: The size of a window for each spatial axis.
        stride: The distance of windows for each spatial axis; None: 1.
        padding: Zeros before and after each spatial axis; None: 0.
        dilation: The distance of elements in a window for each spatial axis; None: 1.

    Returns:
        A new tensor (N, C * elements of a window, windows) with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: A list has another length than there are spatial axes; no window fits.
    """
    check_inputs(t=t)
    attributes = _window(kernel_size, stride, padding, dilation)
    return make("Unfold", [t], attributes, name="unfold_out", settings="unfold")


def fold(
    t: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
) -> Tensor:
    """Add columns back to where `unfold` takes them from (col2im), as `torch.nn.functional.fold`.

    Args:
        t: The columns (N, C * elements of a window, windows); any dtype but float8 and bool.
        output_size: The size of each spatial axis of the result.
        kernel_size: The size of a window for each spatial axis.
        stride: The distance of windows for each spatial axis; None: 1.
        padding: Elements before and after each spatial axis that are dropped; None: 0.
        dilation: The distance of elements in a window for each spatial axis; None: 1.

    Returns:
        A new tensor (N, C, output_size...) with the dtype of `t`: sums over windows.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The shape of `t` does not suit the windows; no window fits.
    """
    check_inputs(t=t)
    attributes = _window(kernel_size, stride, padding, dilation)
    attributes["output_size"] = [int(size) for size in output_size]
    return make("Fold", [t], attributes, name="fold_out", settings="fold")
