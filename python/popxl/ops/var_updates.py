"""Updates of variables in place, as optimizers need them.

A factor is a float or a scalar tensor. The results are aliases of the updated tensor.
"""

from __future__ import annotations

from popxl import dtypes
from popxl.ops.utils import check_inputs, handle_negative_axis, make, number_or_tensor
from popxl.tensor import Tensor, TensorLike, constant

Factor = float | Tensor


def _accumulate(
    kind: str, t: Tensor, X: Tensor, f: Factor | None, name: str, settings: str
) -> Tensor:
    check_inputs(t=t, X=X)
    attributes: dict[str, object] = {"type": kind}
    inputs = [t, X, number_or_tensor("factor", f, attributes)]
    return make("Accumulate", inputs, attributes, name=f"{name}__{t.name}", settings=settings)


def accumulate_(t: Tensor, X: Tensor, f: Factor | None = None) -> Tensor:
    """t += f * X."""
    kind = "Add" if f is None else "DampenedAdd"
    return _accumulate(kind, t, X, f, "accumulate", "accumulate")


def accumulate_square_(t: Tensor, X: Tensor, f: Factor = 1.0) -> Tensor:
    """t += f * X^2."""
    return _accumulate("DampenedAddSquare", t, X, f, "accumulate_square", "accumulate_square")


def accumulate_mean_(t: Tensor, X: Tensor, step: TensorLike) -> Tensor:
    """The mean of X and the `step` values that `t` is the mean of."""
    check_inputs(t=t, X=X)
    count = step if isinstance(step, Tensor) else constant(step, dtypes.float32)
    return _accumulate("Mean", t, X, count, "accumulate_mean", "accumulate_mean")


def accumulate_moving_average_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """t = f*t + (1 - f)*X."""
    name = "accumulate_moving_avg"
    return _accumulate("MovingAverage", t, X, f, name, "accumulate_moving_average")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """t = f*t + (1 - f)*X^2."""
    name = "accumulate_moving_avg_square"
    return _accumulate("MovingAverageSquare", t, X, f, name, "accumulate_moving_average_square")


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,
    indices: Tensor,
    axis: int = 0,
    f: Factor | None = None,
    W: Tensor | None = None,
) -> Tensor:
    """t[indices[p]] += f * X[p] along `axis`; repeated indices add up. W has no effect."""
    check_inputs(t=t, X=X, indices=indices)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    inputs = [t, X, number_or_tensor("factor", f, attributes), indices]
    if W is not None:
        check_inputs(W=W)
        inputs.append(W)
    return make(
        "PopartSparseAccumulate",
        inputs,
        attributes,
        name=f"sparse_accumulate__{t.name}",
        settings="sparse_accumulate",
    )


def accumulator_scale_(t: Tensor, f: Factor) -> Tensor:
    """t *= f; the float 0 clears `t` whatever it holds."""
    check_inputs(t=t)
    attributes: dict[str, object] = {}
    inputs = [t, number_or_tensor("factor", f, attributes)]
    return make(
        "AccumulatorScale",
        inputs,
        attributes,
        name=f"accumulator_scale__{t.name}",
        settings="accumulator_scale",
    )


def accumulator_zero_(t: Tensor) -> Tensor:
    """t = 0."""
    return accumulator_scale_(t, 0.0)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """t = X."""
    check_inputs(t=t, X=X)
    return make("CopyVarUpdate", [t, X], name=f"updated__{t.name}", settings="copy_var_update")


def _updater(
    mode: str,
    moments: tuple[Tensor, Tensor],
    weight: Tensor | None,
    time_step: Tensor | None,
    factors: dict[str, Factor | None],
    settings: str,
) -> Tensor:
    first, second = moments
    check_inputs(acc_first_order=first, acc_second_order=second)
    attributes: dict[str, object] = {"mode": mode}
    decay = factors["weight_decay"]
    decays = isinstance(decay, Tensor) or bool(decay)
    if decays and weight is None:
        raise ValueError("Weight decay requires weight to not be None.")
    if not decays:
        factors["weight_decay"] = None
    optional: dict[str, Tensor] = {}
    if decays and weight is not None:
        optional["weight"] = weight
    if time_step is not None:
        optional["time_step"] = time_step
    check_inputs(acc_first_order=first, acc_second_order=second, **optional)
    order = ("weight_decay", "beta1", "beta2", "epsilon")
    tensors = [number_or_tensor(name, factors.get(name), attributes) for name in order]
    inputs = [optional.get("weight"), first, second, time_step, *tensors]
    return make("AdamUpdater", inputs, attributes, name="Updater", settings=settings)


def _adam(
    modes: tuple[str, str],
    moments: tuple[Tensor, Tensor],
    weight: Tensor | None,
    time_step: Tensor | None,
    factors: dict[str, Factor | None],
    settings: str,
) -> Tensor:
    corrects = time_step is not None
    if corrects and (factors["beta1"] is None or factors["beta2"] is None):
        raise ValueError("Bias correction requires both beta1 and beta2 to not be None.")
    if not corrects:
        factors = {**factors, "beta1": None, "beta2": None}
    return _updater(modes[0 if corrects else 1], moments, weight, time_step, factors, settings)


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor | None = None,
    beta2: Factor | None = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """m / (sqrt(v) + epsilon), plus weight_decay * weight.

    With `time_step` that is first incremented and the moments are corrected for their bias.
    """
    factors: dict[str, Factor | None] = {
        "weight_decay": weight_decay,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
    }
    moments = (acc_first_order, acc_second_order)
    return _adam(("Adam", "AdamNoBias"), moments, weight, time_step, factors, "adam_updater")


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor | None = None,
    beta2: Factor | None = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """The same arithmetic as `adam_updater`, for LAMB."""
    factors: dict[str, Factor | None] = {
        "weight_decay": weight_decay,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
    }
    moments = (acc_first_order, acc_second_order)
    return _adam(("Lamb", "LambNoBias"), moments, weight, time_step, factors, "lamb_updater")


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor = 0.9,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """Bias-corrected m / (v + epsilon), plus weight_decay * weight; v is an infinity norm."""
    if time_step is None:
        raise ValueError("AdaMax requires time_step to not be None.")
    factors: dict[str, Factor | None] = {
        "weight_decay": weight_decay,
        "beta1": beta1,
        "epsilon": epsilon,
    }
    moments = (acc_first_order, acc_second_order)
    return _updater("AdaMax", moments, weight, time_step, factors, "adamax_updater")


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: Factor | None = None,
    max_weight_norm: Factor | None = None,
) -> Tensor:
    """t -= learning_rate * min(sqrt(r1), max_weight_norm) / sqrt(r2) * x, in place.

    r1 and r2 are the squared norms of t and x; the ratio is 1 where one of them is 0. Without
    `max_weight_norm` norms are not clipped.
    """
    check_inputs(t=t, x=x, r1=r1, r2=r2)
    if learning_rate is None:
        raise ValueError("adam_var_update: learning_rate has no default: give a float or a tensor")
    attributes: dict[str, object] = {}
    inputs = [
        t,
        x,
        r1,
        r2,
        number_or_tensor("learning_rate", learning_rate, attributes),
        number_or_tensor("max_weight_norm", max_weight_norm, attributes),
    ]
    return make(
        "AdamVarUpdate", inputs, attributes, name="adam_var_update_out", settings="adam_var_update"
    )
