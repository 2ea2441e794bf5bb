"""Enums of options, annotations and ops."""

from __future__ import annotations

import enum

__all__ = [
    "AutoStage",
    "CommGroupType",
    "ConnectionType",
    "DataLoaderMode",
    "HalfFloatCastingBehavior",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "OutputMode",
    "OverlapMode",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "VariableRetrievalMode",
]


class DataLoaderMode(enum.IntEnum):
    """How a data loader fetches batches.

    `Sync` in the calling process, `Async` by a process that works ahead, `AsyncRebatched` also with
    the samples that are left over in each worker put together to whole batches.
    """

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.IntEnum):
    """How an asynchronous data accessor starts its process and shares memory with it."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class OutputMode(enum.IntEnum):
    """Which results a call returns.

    Those of the last micro-batch (`Final`), of one in a number (`EveryN`), of all (`All`), or the
    sum over them (`Sum`). `Default` is `Final` in training and `All` in inference.
    """

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class MeanReductionStrategy(enum.IntEnum):
    """When a mean of gradients is divided.

    `Running` keeps a mean while it accumulates, `Post` divides the sum, `PostAndLoss` divides for
    accumulation in the loss and for replicas at the end.
    """

    Running = 0
    Post = 1
    PostAndLoss = 2


class ReductionType(enum.IntEnum):
    """How values are reduced."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class ConnectionType(enum.IntEnum):
    """When a device is attached: at compilation, at the first run, or never."""

    Always = 0
    OnDemand = 1
    Never = 2


class SyncPattern(enum.IntEnum):
    """How devices synchronise; without effect here."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class HalfFloatCastingBehavior(enum.IntEnum):
    """How ops treated operands of float16 and float32 once; without effect."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class MatMulSerializationMode(enum.Enum):
    """Along which dimension a product of matrices is computed in parts."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(enum.Enum):
    """With what the transfer of an input or output overlaps."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class Liveness(enum.IntEnum):
    """How long tensors of a phased execution stay on the device."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class AutoStage(enum.IntEnum):
    """How blocks get stages when none are given.

    The stage is the block's device (`SameAsIpu`), or every new block has the next one
    (`AutoIncrement`).
    """

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(enum.IntEnum):
    """How convolutions that are computed together are planned."""

    Parallel = 0
    Serial = 1


class CommGroupType(enum.IntEnum):
    """How replicas are grouped.

    With R replicas in groups of k: one group (`All`), {0..k-1}, {k..2k-1}, ... (`Consecutive`),
    {0, R/k, 2R/k, ...}, {1, R/k + 1, ...}, ... (`Orthogonal`), or each alone (`NoGrouping`).
    """

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(enum.IntEnum):
    """Whose values of a grouped variable are read back: of one replica per group, or of all."""

    OnePerGroup = 0
    AllReplicas = 2
