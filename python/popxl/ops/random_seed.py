"""Seeds made from seeds."""

from __future__ import annotations

from popxl import dtypes
from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor, TensorLike, constant


def check_seed(seed: Tensor) -> None:
    """ValueError unless it is a seed: two words of uint32."""
    if seed.shape != (2,) or seed.dtype != dtypes.uint32:
        raise ValueError(
            "seed Tensor must be shape=(2,) dtype=uint32. Provided "
            f"shape={seed.shape} dtype={seed.dtype}"
        )


def create_random_seed(seed: Tensor, modifier: TensorLike) -> Tensor:
    """The seed with its second word drawn anew; the draw depends on seed and modifier."""
    check_inputs(seed=seed)
    check_seed(seed)
    number = modifier if isinstance(modifier, Tensor) else constant(modifier, dtypes.uint32)
    check_inputs(seed=seed, modifier=number)
    return make(
        "ModifyRandomSeed", [seed, number], name="modified_seed", settings="create_random_seed"
    )


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """n new seeds; the i-th depends on the seed and i alone."""
    return tuple(create_random_seed(seed, i) for i in range(n))
