"""The operators of tensors, which are ops."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from popxl.utils import inferred_dtype

if TYPE_CHECKING:
    from popxl.dtypes import DType
    from popxl.tensor_base import HostTensor, Tensor, TensorLike


# The module popxl.ops, which is built on the tensors and registers itself here.
_registered: list[Any] = []


def register_ops(module: ModuleType) -> None:
    """Make the ops known to the tensors.

    Args:
        module: `popxl.ops`.
    """
    _registered.append(module)


def all_ops() -> Any:
    """Give `popxl.ops`, which is built on the tensors.

    Returns:
        The module.
    """
    return _registered[0]


class TensorOperators:
    """What `+`, `@` and the other operators of tensors do."""

    if TYPE_CHECKING:

        def _ensure_tensor(
            self, value: TensorLike, dtype: DType | None = None, raise_on_empty: bool = True
        ) -> Tensor: ...

    def __add__(self, other: TensorLike) -> Tensor:
        return all_ops().add(self, self._ensure_tensor(other))

    def __radd__(self, other: HostTensor) -> Tensor:
        return all_ops().add(self._ensure_tensor(other), self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return all_ops().sub(self, self._ensure_tensor(other))

    def __rsub__(self, other: HostTensor) -> Tensor:
        return all_ops().sub(self._ensure_tensor(other), self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return all_ops().mul(self, self._ensure_tensor(other))

    def __rmul__(self, other: HostTensor) -> Tensor:
        return all_ops().mul(self._ensure_tensor(other), self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return all_ops().div(self, self._ensure_tensor(other))

    def __rtruediv__(self, other: HostTensor) -> Tensor:
        return all_ops().div(self._ensure_tensor(other), self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return all_ops().matmul(self, self._ensure_tensor(other))

    def __rmatmul__(self, other: HostTensor) -> Tensor:
        return all_ops().matmul(self._ensure_tensor(other), self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return all_ops().fmod(self, self._ensure_tensor(other))

    def __rmod__(self, other: HostTensor) -> Tensor:
        return all_ops().fmod(self._ensure_tensor(other), self)

    def __and__(self, other: TensorLike) -> Tensor:
        return all_ops().logical_and(self, self._ensure_tensor(other))

    def __rand__(self, other: HostTensor) -> Tensor:
        return all_ops().logical_and(self._ensure_tensor(other), self)

    def __or__(self, other: TensorLike) -> Tensor:
        return all_ops().logical_or(self, self._ensure_tensor(other))

    def __ror__(self, other: HostTensor) -> Tensor:
        return all_ops().logical_or(self._ensure_tensor(other), self)

    def __pow__(self, other: TensorLike) -> Tensor:
        if isinstance(other, TensorOperators):
            return all_ops().pow(self, other)
        # An exponent keeps the dtype that it has by itself.
        exponent = self._ensure_tensor(other, inferred_dtype(other), raise_on_empty=False)
        return all_ops().pow(self, exponent)

    def __rpow__(self, other: TensorLike) -> Tensor:
        return all_ops().pow(self._ensure_tensor(other, inferred_dtype(other)), self)

    def __neg__(self) -> Tensor:
        return all_ops().negate(self)

    def __invert__(self) -> Tensor:
        return all_ops().logical_not(self)
