"""Tensors and what makes, describes and places them."""

from popxl.constants import constant
from popxl.sharded_variable import replica_sharded_variable
from popxl.tensor_base import (
    Constant,
    HostScalarTensor,
    HostTensor,
    ScalarType,
    Tensor,
    TensorByRef,
    TensorLike,
    Variable,
    host_tensor_types,
    tensor_class,
)
from popxl.tensor_location import ReplicatedTensorSharding, TensorLocation, TensorStorage
from popxl.tensor_spec import LocationInfo, TensorSpec
from popxl.variables import (
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    variable,
)

__all__ = [
    "Constant",
    "HostScalarTensor",
    "HostTensor",
    "LocationInfo",
    "ReplicatedTensorSharding",
    "ScalarType",
    "Tensor",
    "TensorByRef",
    "TensorLike",
    "TensorLocation",
    "TensorSpec",
    "TensorStorage",
    "Variable",
    "constant",
    "graph_input",
    "graph_output",
    "host_tensor_types",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_buffer",
    "replica_sharded_variable",
    "tensor_class",
    "variable",
]
