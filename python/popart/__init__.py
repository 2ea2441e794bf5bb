"""Names of the layer below popxl that programs use: exceptions, options, devices, the logger."""

from __future__ import annotations

from pando._core import (
    OutOfMemoryException,
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
)
from popart._internal import ir as _ir
from popart._internal.options import SessionOptions, VirtualGraphMode
from popart.devices import (
    DeviceConnectionType,
    DeviceInfo,
    DeviceManager,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from popart.exceptions import (
    poplar_application_runtime_error,
    poplar_exception,
    poplar_recoverable_runtime_error,
    poplar_runtime_error,
    poplar_system_runtime_error,
    poplar_unknown_runtime_error,
    poplar_unrecoverable_runtime_error,
    poplibs_exception,
)
from popart.logging_ import Logger, getLogger
from popart.variable_settings import (
    CommGroup,
    CommGroupType,
    VariableRetrievalMode,
    VariableSettings,
)
from popart.weights_io import PyWeightsIO

DataType = _ir.DataType
ExecutionContext = _ir.ExecutionContext
ReplicaGrouping = _ir.ReplicaGrouping
TileSet = _ir.TileSet

__all__ = [
    "CommGroup",
    "CommGroupType",
    "DataType",
    "DeviceConnectionType",
    "DeviceInfo",
    "DeviceManager",
    "DeviceSelectionCriterion",
    "DeviceType",
    "ExecutionContext",
    "Logger",
    "OutOfMemoryException",
    "PyWeightsIO",
    "ReplicaGrouping",
    "SessionOptions",
    "SyncPattern",
    "TileSet",
    "VariableRetrievalMode",
    "VariableSettings",
    "VirtualGraphMode",
    "getLogger",
    "packageHash",
    "popart_exception",
    "popart_internal_exception",
    "popart_runtime_error",
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_recoverable_runtime_error",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_unknown_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplibs_exception",
    "versionString",
]

_VERSION = "3.4.0+pando.0.1.0"


def versionString() -> str:
    """Give the version of the interface, then, after a plus sign, that of Pando.

    Returns:
        The version.
    """
    return _VERSION


def packageHash() -> str:
    """Give the part of the version after the plus sign.

    Returns:
        The version of Pando.
    """
    return _VERSION.partition("+")[2]
