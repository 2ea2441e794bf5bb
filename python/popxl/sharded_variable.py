"""Variables of which every replica holds and may write one shard."""

from __future__ import annotations

from popart._internal.enums import ExecutionContext
from popxl.context import _execution_context
from popxl.dtypes import DType
from popxl.ops.remote import remote_load, remote_store
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor_base import HostTensor, Tensor, Variable
from popxl.utils import to_numpy
from popxl.variables import remote_replica_sharded_variable, replica_sharded_buffer


def replica_sharded_variable(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> tuple[Variable, Tensor]:
    """Make a sharded variable and its shard, a tensor that the program may use and write.

    The shard is loaded when weights go to the device and stored when they come from it.

    Args:
        data: The first value. With a grouping of several groups its first axis is the group.
        dtype: The element type to convert to; None: that of the data.
        name: The name; None: `t`.
        downcast: Whether 64-bit data become 32-bit data when `dtype` is None.
        replica_grouping: The groups of replicas that share one value; None: one group of all.
        shard_over: The number of shards, which divides the group size; None: the group size.
        retrieval_mode: `one_per_group` reads one value a group back, `all_replicas` one a replica.
        log2_scale: For float8 types, the exponent of the scale of the conversion; None: 0.
        nan_on_overflow: For float8 types, whether values out of range become NaN; None: True.

    Returns:
        The variable, a handle for the host, and the shard, of shape (ceil(elements / shards),).

    Raises:
        RuntimeError: A float8 setting is given for another type.
        ValueError: There is only one replica, `shard_over` does not divide the group size, or
            `variable` would refuse.
    """
    array = to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    element_type = DType.as_dtype(array.dtype)
    buffer = replica_sharded_buffer(array.shape, element_type, replica_grouping, shard_over)
    handle = remote_replica_sharded_variable(
        array, buffer, 0, element_type, name, False, replica_grouping, retrieval_mode
    )
    with _execution_context(ExecutionContext.WeightsFromHostFragment):
        shard = remote_load(buffer, 0, f"{handle.name}_rts")
    with _execution_context(ExecutionContext.WeightsToHostFragment):
        remote_store(buffer, 0, shard)
    return handle, shard
