"""Updates of variables in place, as optimizers need them.

A factor is a float, which becomes part of the program, or a float tensor of one element. The
functions whose names end in `_` write their first tensor and return an alias of it. The plain sums
are rounded once; moving averages and squares work in the dtype of the tensor, with rounding after
every step. There are no gradients.
"""

from __future__ import annotations

from popxl import dtypes
from popxl.constants import constant
from popxl.ops.row_updates import sparse_accumulate_ as sparse_accumulate_
from popxl.ops.row_updates import sparse_adam_ as sparse_adam_
from popxl.ops.utils import check_inputs, make, number_or_tensor
from popxl.tensor_base import Tensor, TensorLike

Factor = float | Tensor


def _accumulate(
    kind: str, t: Tensor, X: Tensor, f: Factor | None, name: str, settings: str
) -> Tensor:
    check_inputs(t=t, X=X)
    attributes: dict[str, object] = {"type": kind}
    inputs = [t, X, number_or_tensor("factor", f, attributes)]
    return make("Accumulate", inputs, attributes, name=f"{name}__{t.name}", settings=settings)


def accumulate_(t: Tensor, X: Tensor, f: Factor | None = None) -> Tensor:
    """Add X in place: t += f * X.

    Args:
        t: The tensor to update.
        X: What is added, of the shape of `t`; its dtype may differ.
        f: The factor of `X`; None: 1.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or the factor does not have one element.
        popart_internal_exception: `f` is the number 0, found when a session is made.
    """
    kind = "Add" if f is None else "DampenedAdd"
    return _accumulate(kind, t, X, f, "accumulate", "accumulate")


def accumulate_square_(t: Tensor, X: Tensor, f: Factor = 1.0) -> Tensor:
    """Add squares in place: t += f * X^2.

    Args:
        t: The tensor to update; float16, bfloat16, float32 or float64.
        X: What is squared, of the shape of `t`; its dtype may differ.
        f: The factor of the squares.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or the factor does not have one element.
        popart_internal_exception: `f` is the number 0, found when a session is made.
    """
    return _accumulate("DampenedAddSquare", t, X, f, "accumulate_square", "accumulate_square")


def accumulate_mean_(t: Tensor, X: Tensor, step: TensorLike) -> Tensor:
    """Take X into a mean in place: t = t * step / (step + 1) + X / (step + 1).

    Args:
        t: The mean of `step` values, which becomes that of one more; float16, bfloat16, float32 or
            float64.
        X: The next value, of the shape of `t`; its dtype may differ.
        step: The number of values that `t` is the mean of, first 0: a number, which becomes a
            float32 constant, or a tensor of one element.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or the step does not have one element.
    """
    check_inputs(t=t, X=X)
    count = step if isinstance(step, Tensor) else constant(step, dtypes.float32)
    return _accumulate("Mean", t, X, count, "accumulate_mean", "accumulate_mean")


def accumulate_moving_average_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """Update a moving average in place: t = f * t + (1 - f) * X.

    Args:
        t: The average; float16, bfloat16, float32 or float64.
        X: The next value, of the shape of `t`; its dtype may differ.
        f: The share of the old average, from 0 to 1.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or the factor does not have one element.
    """
    name = "accumulate_moving_avg"
    return _accumulate("MovingAverage", t, X, f, name, "accumulate_moving_average")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """Update a moving average of squares in place: t = f * t + (1 - f) * X^2.

    Args:
        t: The average; float16, bfloat16, float32 or float64.
        X: The value that is squared, of the shape of `t`; its dtype may differ.
        f: The share of the old average, from 0 to 1.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or the factor does not have one element.
    """
    name = "accumulate_moving_avg_square"
    return _accumulate("MovingAverageSquare", t, X, f, name, "accumulate_moving_average_square")


def accumulator_scale_(t: Tensor, f: Factor) -> Tensor:
    """Scale a tensor in place: t *= f. The number 0 makes it 0 whatever it holds, NaN too.

    Args:
        t: The tensor to update; any dtype but float8.
        f: The factor: a number, or a tensor that broadcasts to `t`.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The factor does not broadcast to `t`.
    """
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
    """Set a tensor to 0 in place.

    Args:
        t: The tensor to update; any dtype but float8.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return accumulator_scale_(t, 0.0)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """Copy a tensor in place: t = X.

    Args:
        t: The tensor to overwrite.
        X: The new value, of the shape and dtype of `t`.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ; the dtypes differ, found when a session is made.
    """
    check_inputs(t=t, X=X)
    return make("CopyVarUpdate", [t, X], name=f"updated__{t.name}", settings="copy_var_update")


def _check_decay(factors: dict[str, Factor | None], weight: Tensor | None) -> bool:
    """Whether weights decay; ValueError if they do without a weight."""
    decay = factors["weight_decay"]
    decays = isinstance(decay, Tensor) or bool(decay)
    if decays and weight is None:
        raise ValueError("Weight decay requires weight to not be None.")
    return decays


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
    decays = _check_decay(factors, weight)
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
    _check_decay(factors, weight)
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
    """Compute the step of Adam: m / (sqrt(v) + epsilon) + weight_decay * weight.

    With `time_step`, that is first incremented in place to s, and m is divided by 1 - beta1^s and v
    by 1 - beta2^s, which corrects their bias.

    Args:
        acc_first_order: The moving average m of the gradient; float16, bfloat16, float32 or
            float64.
        acc_second_order: The moving average v of its square, of the shape of m.
        weight: The weight, of the shape of m; wanted and used only if it decays.
        time_step: The number of steps made, a float32 tensor of one element. None: no correction.
        weight_decay: The factor of the weight; None or 0: no decay.
        beta1: The factor that m was averaged with; used only with `time_step`.
        beta2: The factor that v was averaged with; used only with `time_step`.
        epsilon: What keeps the denominator from 0.

    Returns:
        A new tensor of the shape of m, with the dtype of the weight if it decays, else of m.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the weight decays and is not given, or `time_step` is given without both
            betas.
        popart_exception: Shapes do not fit, or a factor does not have one element.
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
    """Compute the step of LAMB before it is scaled: the same arithmetic as `adam_updater`.

    Args:
        acc_first_order: The moving average m of the gradient; float16, bfloat16, float32 or
            float64.
        acc_second_order: The moving average v of its square, of the shape of m.
        weight: The weight, of the shape of m; wanted and used only if it decays.
        time_step: The number of steps made, a float32 tensor of one element, which is incremented
            in place. None: no correction of the bias.
        weight_decay: The factor of the weight; None or 0: no decay.
        beta1: The factor that m was averaged with; used only with `time_step`.
        beta2: The factor that v was averaged with; used only with `time_step`.
        epsilon: What keeps the denominator from 0.

    Returns:
        A new tensor of the shape of m, with the dtype of the weight if it decays, else of m.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the weight decays and is not given, or `time_step` is given without both
            betas.
        popart_exception: Shapes do not fit, or a factor does not have one element.
    """
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
    """Compute the step of AdaMax: m / (1 - beta1^s) / (v + epsilon) + weight_decay * weight.

    `time_step` is first incremented in place to s.

    Args:
        acc_first_order: The moving average m of the gradient; float16, bfloat16, float32 or
            float64.
        acc_second_order: The infinity norm v of the gradients, of the shape of m.
        weight: The weight, of the shape of m; wanted and used only if it decays.
        time_step: The number of steps made, a float32 tensor of one element; it must be given.
        weight_decay: The factor of the weight; None or 0: no decay.
        beta1: The factor that m was averaged with.
        epsilon: What keeps the denominator from 0.

    Returns:
        A new tensor of the shape of m, with the dtype of the weight if it decays, else of m.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; `time_step` is not given, or the weight decays and is not given.
        popart_exception: Shapes do not fit, or a factor does not have one element.
    """
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
    """Subtract a step in place: t -= learning_rate * ratio * x, as LAMB does.

    The ratio is min(sqrt(r1), max_weight_norm) / sqrt(r2), and 1 where r1, r2 or a tensor
    `max_weight_norm` is 0.

    Args:
        t: The weight to update; float16, bfloat16, float32 or float64.
        x: The step, of the shape of `t`; its dtype may differ.
        r1: The sum of the squares of `t`, a tensor of one element, as `lamb_square` gives it.
        r2: The sum of the squares of `x`, a tensor of one element.
        learning_rate: The factor of the step. It must be given: there is no default.
        max_weight_norm: The limit of sqrt(r1), not the number 0; None: no limit.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes do not fit, or a factor does not have one element; `learning_rate`
            is None, found when a session is made.
        popart_internal_exception: `max_weight_norm` is the number 0, found when a session is made.
    """
    check_inputs(t=t, x=x, r1=r1, r2=r2)
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
