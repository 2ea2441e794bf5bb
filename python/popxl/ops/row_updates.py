"""Updates of some rows of a table in place: part of `popxl.ops.var_updates`."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, handle_negative_axis, make, number_or_tensor
from popxl.tensor_base import Tensor


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,
    indices: Tensor,
    axis: int = 0,
    f: float | Tensor | None = None,
    W: Tensor | None = None,
) -> Tensor:
    """Add slices at indices in place: t[indices[p]] += f * X[p] along an axis.

    Indices that repeat add up.

    Args:
        t: The tensor to update; float16, bfloat16, float32 or float64.
        X: What is added, of the shape of `t` with the shape of `indices` in place of `axis`.
        indices: Positions along `axis`, of any integer dtype.
        axis: The axis; a negative one counts from the end.
        f: The factor of `X`; None: 1.
        W: Has no effect: a hint for the layout of `t` on other devices.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes do not fit, or the axis is out of range; the indices are not
            integers, found when a session is made.
    """
    check_inputs(t=t, X=X, indices=indices)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    inputs = [t, X, number_or_tensor("factor", f, attributes), indices]
    if W is not None:
        check_inputs(W=W)
        inputs.append(W)
    return make(
        "SparseAccumulate",
        inputs,
        attributes,
        name=f"sparse_accumulate__{t.name}",
        settings="sparse_accumulate",
    )


def sparse_adam_(
    t: Tensor,
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    X: Tensor,
    indices: Tensor | None = None,
    *,
    learning_rate: float | Tensor,
    time_step: Tensor | None = None,
    weight_decay: float | Tensor | None = None,
    beta1: float | Tensor = 0.9,
    beta2: float | Tensor = 0.999,
    epsilon: float | Tensor = 1e-07,
    axis: int = 0,
) -> Tensor:
    """Update some rows of a table in place as Adam does, and leave the others as they are.

    For each of these rows, with its gradient g:

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        t = t - learning_rate * (m' / (sqrt(v') + epsilon) + weight_decay * t)

    m' and v' are corrected for their bias as in `adam_updater`. Plain Adam moves every row at every
    step, because moments go on after a gradient: this differs, and is what PyTorch's `SparseAdam`
    does. Without `indices`, X is a gradient of the shape of `t`, and rows in which it is all 0 are
    left. Where X is the gradient of gathers of `t` that nothing else reads, a gradient of that size
    is never made.

    Args:
        t: The table to update; float16, bfloat16, float32 or float64.
        acc_first_order: The moving average m of the gradient, of the shape of `t`, updated in
            place.
        acc_second_order: The moving average v of its square, of the shape of `t`, updated in place.
        X: The gradients of the rows, of the shape of `t` with the shape of `indices` in place of
            `axis`; those of one index add up, in float32 unless they are float64. Without
            `indices`, of the shape of `t`.
        indices: Positions along `axis`, of any integer dtype; those out of range are skipped. None:
            the rows in which X has an element other than 0.
        learning_rate: The factor of the step.
        time_step: The number of steps made, a float32 tensor of one element, which is incremented
            in place. None: no correction of the bias.
        weight_decay: The factor of the weight; None or 0: no decay.
        beta1: The share of m that is kept.
        beta2: The share of v that is kept.
        epsilon: What keeps the denominator from 0.
        axis: The axis of the rows; a negative one counts from the end.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes do not fit, the axis is out of range, or a factor does not have one
            element; dtypes do not fit, found when a session is made.
    """
    optional = {"indices": indices, "time_step": time_step}
    check_inputs(
        t=t,
        acc_first_order=acc_first_order,
        acc_second_order=acc_second_order,
        X=X,
        **{name: tensor for name, tensor in optional.items() if tensor is not None},
    )
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    factors: dict[str, float | Tensor | None] = {
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
    }
    tensors = [number_or_tensor(name, factor, attributes) for name, factor in factors.items()]
    inputs = [t, acc_first_order, acc_second_order, X, indices, time_step, *tensors]
    return make(
        "SparseAdam", inputs, attributes, name=f"sparse_adam__{t.name}", settings="sparse_adam"
    )
