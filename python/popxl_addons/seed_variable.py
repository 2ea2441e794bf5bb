"""Random seeds that live on the device."""

from __future__ import annotations

import popxl
from popart._internal import ir as _ir
from popxl import ops
from popxl.context import _execution_context
from popxl.tensor import Variable


def seed_variable(
    seed: int, replica_grouping: popxl.ReplicaGrouping | None = None
) -> tuple[Variable, popxl.Tensor]:
    """Makes a random seed that lives on the device.

    It is loaded with the weights and saved with them, so that changes in place (`seed += 1`) last
    from run to run.

    Args:
        seed: The number from which the seeds of all replicas are drawn.
        replica_grouping: Replicas in one group have the same seed; None means a seed for each
            replica.

    Returns:
        The variable `random_seed`, uint32 (2,) or (groups, 2), and this replica's seed, uint32
        (2,).
    """
    ir = popxl.gcg().ir
    group = replica_grouping or ir.replica_grouping(group_size=1)
    seeds = popxl.create_seeds(seed, replicas=group.num_groups)
    buffer = popxl.remote_buffer((2,), popxl.uint32, 1)
    variable = popxl.remote_variable(
        seeds, buffer, 0, popxl.uint32, "random_seed", replica_grouping=group
    )
    with _execution_context(_ir.ExecutionContext.WeightsFromHostFragment):
        loaded = ops.remote_load(buffer, 0, variable.name)
    with _execution_context(_ir.ExecutionContext.WeightsToHostFragment):
        ops.remote_store(buffer, 0, loaded)
    return variable, loaded
