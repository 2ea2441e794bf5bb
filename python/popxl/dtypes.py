"""Element types."""

from __future__ import annotations

import importlib
import sys
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from pando import _core
from popart._internal.ir import DataType

np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])


class dtype:  # noqa: N801 - the name programs know
    """An element type. The instances are singletons; compare them with `is` or `==`."""

    _by_name: ClassVar[dict[str, dtype]] = {}
    _by_python_type: ClassVar[dict[Any, dtype]] = {}
    _by_numpy: ClassVar[dict[np.dtype[Any], dtype]] = {}

    _name: str
    _numpy: np.dtype[Any]
    _torch_name: str | None
    _is_complex: Any
    _is_int: Any
    _is_floating_point: Any
    _is_signed: Any
    _core_dtype: _core.DType | None

    def __init__(self) -> None:
        raise TypeError("element types cannot be made: use those of popxl, such as popxl.float32")

    @classmethod
    def _make(
        cls, name: str, kind: str, numpy_type: Any, torch_name: str | None, python_type: Any = None
    ) -> dtype:
        self = cls.__new__(cls)
        self._name = name
        self._numpy = np.dtype(numpy_type)
        self._torch_name = torch_name
        self._is_complex = kind == "complex"
        self._is_int = kind in ("int", "uint")
        self._is_floating_point = kind == "float"
        self._is_signed = kind in ("int", "float", "complex")
        # The core has no complex numbers.
        self._core_dtype = None if kind == "complex" else _core.parse_dtype(name)
        cls._by_name[name] = self
        cls._by_numpy[self._numpy] = self
        if python_type is not None:
            cls._by_python_type[python_type] = self
        return self

    @property
    def name(self) -> str:
        """The name, such as `float32`."""
        return self._name

    @property
    def is_complex(self) -> Any:
        """Whether it is complex. No op takes complex tensors."""
        return self._is_complex

    @property
    def is_int(self) -> Any:
        """Whether it is an integer type, with or without sign; bool is none."""
        return self._is_int

    @property
    def is_floating_point(self) -> Any:
        """Whether it is a floating-point type, also of 8 bits."""
        return self._is_floating_point

    @property
    def is_signed(self) -> Any:
        """Whether it has negative values."""
        return self._is_signed

    @property
    def _pb_dtype(self) -> DataType:
        return DataType(self._name)

    @property
    def _pb(self) -> _core.DType:
        """The core's element type; ValueError for complex types, which no op takes."""
        if self._core_dtype is None:
            raise ValueError(f"{self.name} tensors are not supported: no op works on them")
        return self._core_dtype

    @classmethod
    def _from_pb(cls, core_dtype: _core.DType) -> dtype:
        return _BY_CORE[id(core_dtype)]

    @classmethod
    def from_name(cls, name: str) -> dtype:
        """Find the type with a name.

        Args:
            name: The name, such as `float32`; `half`, `float` and `double` are no names here.

        Returns:
            The type.

        Raises:
            ValueError: No type has the name.
        """
        if name not in cls._by_name:
            raise ValueError(f"there is no popxl dtype '{name}'; known: {', '.join(cls._by_name)}")
        return cls._by_name[name]

    @classmethod
    def as_dtype(cls, value: Any) -> dtype:
        """Find the type that a value stands for.

        Args:
            value: A name, a Python, NumPy or torch type, an internal DataType, what `numpy.dtype`
                takes, or an array or tensor, whose element type is taken. The Python type int
                stands for int64.

        Returns:
            The type.

        Raises:
            ValueError: There is none.
        """
        if isinstance(value, dtype):
            return value
        found = cls._find(value)
        if found is None and hasattr(value, "dtype"):
            found = value.dtype if isinstance(value.dtype, dtype) else cls._find(value.dtype)
        if found is None:
            raise ValueError(f"there is no popxl dtype for {value!r}")
        return found

    @classmethod
    def _find(cls, value: Any) -> dtype | None:
        if isinstance(value, str) and value in cls._by_name:
            return cls._by_name[value]
        if isinstance(value, type) and value in cls._by_python_type:
            return cls._by_python_type[value]
        if isinstance(value, DataType):
            return cls._by_name.get(value.value)
        torch_type = _torch_types().get(value) if _is_hashable(value) else None
        if torch_type is not None:
            return torch_type
        if hasattr(value, "dtype") and not isinstance(value, (np.dtype, type)):
            return None
        try:
            return cls._by_numpy.get(np.dtype(value))
        except (TypeError, ValueError):
            return None

    def as_numpy(self) -> np.dtype[Any]:
        """Give the NumPy type.

        Returns:
            The NumPy type; of bfloat16 that of `ml_dtypes`, of float8 formats a structured one of a
                field of uint8.
        """
        return self._numpy

    def as_torch(self) -> Any:
        """Give the torch type.

        Returns:
            The torch type.

        Raises:
            ModuleNotFoundError: Torch is not installed.
            TypeError: Torch has no such type.
        """
        torch = importlib.import_module("torch")
        if self._torch_name is None:
            raise TypeError(f"torch has no counterpart of {self!r}")
        return getattr(torch, self._torch_name)

    def __repr__(self) -> str:
        return f"popxl.dtypes.{self._name}"

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self

    def __reduce__(self) -> Any:
        return dtype.from_name, (self._name,)


def _is_hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _torch_types() -> dict[Any, dtype]:
    """The torch types, without importing torch for programs that do not use it."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "float32"):
        return {}
    return {
        getattr(torch, d._torch_name): d
        for d in dtype._by_name.values()
        if d._torch_name is not None
    }


# Under a name that parameters called `dtype` do not hide.
DType = dtype

bool = dtype._make("bool", "bool", np.bool_, "bool", bool)
int8 = dtype._make("int8", "int", np.int8, "int8")
int16 = dtype._make("int16", "int", np.int16, "int16")
int32 = dtype._make("int32", "int", np.int32, "int32")
int64 = dtype._make("int64", "int", np.int64, "int64")
uint8 = dtype._make("uint8", "uint", np.uint8, "uint8")
uint16 = dtype._make("uint16", "uint", np.uint16, None)
uint32 = dtype._make("uint32", "uint", np.uint32, None)
uint64 = dtype._make("uint64", "uint", np.uint64, None)
float8_143 = dtype._make("float8_143", "float", np_dtype_float8_143, None)
float8_152 = dtype._make("float8_152", "float", np_dtype_float8_152, None)
float16 = half = dtype._make("float16", "float", np.float16, "float16")
bfloat16 = dtype._make("bfloat16", "float", ml_dtypes.bfloat16, "bfloat16")
float32 = dtype._make("float32", "float", np.float32, "float32", float)
float64 = double = dtype._make("float64", "float", np.float64, "float64")
complex64 = dtype._make("complex64", "complex", np.complex64, "complex64")
complex128 = dtype._make("complex128", "complex", np.complex128, "complex128")
float = float32

# Members of an enumeration live as long as it, and Python computes their hashes slowly.
_BY_CORE = {id(d._core_dtype): d for d in dtype._by_name.values() if d._core_dtype is not None}
