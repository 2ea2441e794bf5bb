"""Seeds made from seeds."""

from __future__ import annotations

from popxl import dtypes
from popxl.constants import constant
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor, TensorLike


def check_seed(seed: Tensor) -> None:
    """Check that a tensor is a seed: two words of uint32.

    Args:
        seed: The tensor.

    Raises:
        ValueError: It has another shape or dtype.
    """
    if seed.shape != (2,) or seed.dtype != dtypes.uint32:
        raise ValueError(
            "seed Tensor must be shape=(2,) dtype=uint32. Provided "
            f"shape={seed.shape} dtype={seed.dtype}"
        )


def create_random_seed(seed: Tensor, modifier: TensorLike) -> Tensor:
    """Make a seed from another: the first word stays, the second is drawn.

    The draw depends on both words of the seed and the modifier alone.

    Args:
        seed: The seed: a uint32 tensor of shape (2,).
        modifier: What tells apart the seeds made from one: a number, which becomes a uint32
            constant, or a uint32 tensor of one element.

    Returns:
        A new seed.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; it is no seed.
        popart_exception: The modifier does not have one element or is not uint32.
    """
    check_inputs(seed=seed)
    check_seed(seed)
    number = modifier if isinstance(modifier, Tensor) else constant(modifier, dtypes.uint32)
    check_inputs(seed=seed, modifier=number)
    return make(
        "ModifyRandomSeed", [seed, number], name="modified_seed", settings="create_random_seed"
    )


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """Make several seeds from one. Seed i depends on the given one and i alone, not on `n`.

    Args:
        seed: The seed: a uint32 tensor of shape (2,).
        n: How many.

    Returns:
        n new seeds, as a tuple.

    Raises:
        TypeError: `seed` is not a tensor.
        ValueError: `seed` is not in the current graph; it is no seed.
    """
    return tuple(create_random_seed(seed, i) for i in range(n))
