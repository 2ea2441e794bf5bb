"""popxl: build programs of graphs of tensors and run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from pando.missing_names import missing_names
    from popart._internal.ir import ExecutionContext, TileSet
    from popxl import ops as ops
    from popxl import transforms as transforms
    from popxl.context import (
        gcg,
        get_current_graph,
        get_ir,
        get_main_graph,
        gir,
        gmg,
        in_sequence,
        io_tiles,
        ipu,
        name_scope,
    )
    from popxl.dtypes import (
        bfloat16,
        bool,
        complex64,
        complex128,
        double,
        dtype,
        float,
        float8_143,
        float8_152,
        float16,
        float32,
        float64,
        half,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.module import Module
    from popxl.random_seed import create_seeds
    from popxl.remote_buffer import RemoteBuffer, remote_buffer
    from popxl.replica_grouping import ReplicaGrouping
    from popxl.session import Session
    from popxl.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream
    from popxl.tensor import (
        ReplicatedTensorSharding,
        Tensor,
        TensorByRef,
        TensorLocation,
        TensorSpec,
        TensorStorage,
        constant,
        graph_input,
        graph_output,
        remote_replica_sharded_variable,
        remote_variable,
        replica_sharded_variable,
        variable,
    )
    from popxl.tensor import (
        replica_sharded_buffer as replica_sharded_buffer,
    )
except ModuleNotFoundError as error:
    raise RuntimeError(
        f"popxl cannot be imported: {error}. Install the package for this Python (3.10 or later)."
    ) from error

__version__ = "3.4.0+pando.0.1.0"

__all__ = [
    "DeviceToHostStream",
    "ExecutionContext",
    "Graph",
    "HostToDeviceStream",
    "Ir",
    "Module",
    "RemoteBuffer",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "Session",
    "Tensor",
    "TensorByRef",
    "TensorLocation",
    "TensorSpec",
    "TensorStorage",
    "TileSet",
    "__version__",
    "bfloat16",
    "bool",
    "complex128",
    "complex64",
    "constant",
    "create_seeds",
    "d2h_stream",
    "double",
    "dtype",
    "float",
    "float16",
    "float32",
    "float64",
    "float8_143",
    "float8_152",
    "gcg",
    "get_current_graph",
    "get_ir",
    "get_main_graph",
    "gir",
    "gmg",
    "graph_input",
    "graph_output",
    "h2d_stream",
    "half",
    "in_sequence",
    "int16",
    "int32",
    "int64",
    "int8",
    "io_tiles",
    "ipu",
    "name_scope",
    "remote_buffer",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_variable",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "variable",
]

# Names that belong to submodules and neighbouring packages.
_INSTEAD = {
    "Variable": "it is popxl.tensor.Variable; popxl.variable makes one",
    "Constant": "it is popxl.tensor.Constant; popxl.constant makes one",
    "GradGraphInfo": "it is popxl.transforms.GradGraphInfo",
    "autodiff": "it is popxl.transforms.autodiff",
    "CallSiteInfo": "it is popxl.ops.CallSiteInfo",
    "RepeatSiteInfo": "ops.repeat_with_info returns popxl.ops.CallSiteInfo",
    "pipelined_execution": "it is popxl_addons.pipelined_execution",
    "pipeline_stage": "popxl_addons.pipelined_execution has stages",
    "options": "the options of an Ir are ir._pb_ir.getSessionOptions()",
    "point2point": "popxl.ops.ipu_copy and tensor.copy_to_ipu copy between devices",
    "addons": "import the package popxl_addons",
    "Adam": "it is popxl_addons.optimizers.AdamOptimizerStep",
}

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
