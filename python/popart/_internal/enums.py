"""Enumerations of internal views."""

from __future__ import annotations

import enum


class DataType(enum.Enum):
    """Element types under their internal names."""

    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    FLOAT = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    DOUBLE = "float64"
    FLOAT8_143 = "float8_143"
    FLOAT8_152 = "float8_152"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"


class ExecutionContext(enum.Enum):
    """The program an op belongs to."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


class TileSet(enum.Enum):
    """Which tiles of a device an op uses; metadata here."""

    Compute = 0
    IO = 1
    Undefined = 2
    N = 3


class ExpectedConnectionType(enum.Enum):
    """What an input or output of a gradient graph stands for."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"
