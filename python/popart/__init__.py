"""Names of the layer below popxl that programs use: exceptions, options, devices, the logger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pando._core import (
    OutOfMemoryException,
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
)
from pando.missing_names import missing_names
from popart._internal import ir as _ir
from popart._internal.options import (
    AccumulateOuterFragmentSchedule,
    SessionOptions,
    SubgraphCopyingStrategy,
    VirtualGraphMode,
)
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
    "AccumulateOuterFragmentSchedule",
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
    "SubgraphCopyingStrategy",
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


_SESSION = "popxl.Session(ir) compiles and runs a program, session.run({stream: array}) one step"
_STREAMS = "popxl.d2h_stream and ops.host_store return values; ir.num_host_transfers says how many"
_UPDATES = "popxl.ops.var_updates has the updates of variables, popxl_addons.optimizers has Adam"
_LOSSES = "popxl.ops.nll_loss, l1 and popxl_addons.ops.cross_entropy are losses"
_LOCATIONS = "popxl.TensorLocation and its parts; popxl.remote_variable keeps a variable remotely"
_RECOMPUTE = "popxl_addons.recompute_graph recomputes what a gradient graph needs"
_PIPELINES = "popxl_addons.pipelined_execution runs stages on several devices"
# What to use for the names of the interface that built programs from files of other tools.
_INSTEAD = {
    "Builder": "build graphs with popxl.Ir and popxl.ops",
    "GraphTransformer": "files of other tools are not read; build graphs with popxl.Ir",
    "InferenceSession": _SESSION,
    "TrainingSession": _SESSION,
    "PyStepIO": _SESSION,
    "PyStepIOCallback": _SESSION,
    "DataFlow": _STREAMS,
    "AnchorReturnType": _STREAMS,
    "SGD": _UPDATES,
    "ConstSGD": _UPDATES,
    "Adam": _UPDATES,
    "Adaptive": _UPDATES,
    "OptimizerValue": _UPDATES,
    "ClipNormSettings": _UPDATES,
    "AdamMode": "popxl.ops.var_updates has adam_updater, adamax_updater and lamb_updater",
    "NllLoss": _LOSSES,
    "L1Loss": _LOSSES,
    "IdentityLoss": _LOSSES,
    "ReductionType": "losses take reduction='mean', 'sum' or 'none'",
    "TensorInfo": "popxl.TensorSpec has shape and dtype",
    "TensorLocation": _LOCATIONS,
    "TensorLocationSettings": _LOCATIONS,
    "TensorStorage": _LOCATIONS,
    "ReplicatedTensorSharding": _LOCATIONS,
    "RecomputationType": _RECOMPUTE,
    "RecomputeType": _RECOMPUTE,
    "PipelineSchedule": _PIPELINES,
    "Patterns": "popart._internal.ir.patterns.Patterns; the compiler chooses its own",
    "SyntheticDataMode": "give arrays of the wanted kind to session.run",
    "CommGroups": "popart.CommGroup, or ir.replica_grouping",
}

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
