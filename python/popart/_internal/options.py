"""Session options."""

from __future__ import annotations

import enum
import functools
import os
from typing import Any

from pando.missing_names import nearest_names
from popart.logging_ import getLogger


class VirtualGraphMode(enum.Enum):
    """How ops are assigned to devices."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class SubgraphCopyingStrategy(enum.IntEnum):
    """When inputs of a called graph are copied; of no effect here."""

    OnEnterAndExit = 0
    JustInTime = 1


class AccumulateOuterFragmentSchedule(enum.IntEnum):
    """How the ops of weight updates are ordered; of no effect here."""

    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


def _defaults() -> dict[str, Any]:
    """Every option and its default."""
    return {
        "numIOTiles": 0,
        "partialsTypeMatMuls": "",
        "enableStochasticRounding": False,
        "engineOptions": {},
        "convolutionOptions": {},
        "matmulOptions": {},
        "lstmOptions": {},
        "reportOptions": {},
        "gclOptions": {},
        "enableInplaceAmbiguityChecking": True,
        "aliasZeroCopy": True,
        "useHostCopyOps": True,
        "enableExplicitMainLoops": True,
        "explicitRecomputation": True,
        "virtualGraphMode": VirtualGraphMode.Manual,
        "replicatedGraphCount": 1,
        "enableReplicatedGraphs": False,
        "enableDistributedReplicatedGraphs": False,
        "globalReplicationFactor": 1,
        "globalReplicaOffset": 0,
        "enableEngineCaching": False,
        "cachePath": "session_cache",
        "enableVariablesCaching": False,
        "dotChecks": set(),
        "logDir": "",
        "dotOpNames": False,
        "separateCallOpPdfs": True,
        "firstDotOp": 0,
        "finalDotOp": 10000,
        "constantWeights": True,
        "decomposeGradSum": True,
        "enableOutlining": True,
        "outlineThreshold": 1.0,
        "outlineSequenceBreakCost": 10000.0,
        "autoRecomputation": 0,
        "subgraphCopyingStrategy": 0,
        "kahnTieBreaker": "greedy",
        "timeLimitScheduler": 1e9,
        "swapLimitScheduler": 10**9,
        "enablePrefetchDatastreams": True,
        "defaultBufferingDepth": 1,
        "bufferingDepthMap": {},
        "enableMergeExchange": True,
        "enableSupportedDataTypeCasting": True,
        "rearrangeAnchorsOnHost": True,
        "enableFullyConnectedPass": True,
        "enableNonStableSoftmax": False,
        "enableStableNorm": False,
        "groupNormStridedChannelGrouping": False,
        "syntheticDataMode": 0,
        "enableFloatingPointChecks": False,
        "throwIfLog2ScaleTensorNotInRange": True,
        "instrumentWithHardwareCycleCounter": False,
        "hardwareInstrumentations": set(),
        "compileEngine": True,
        "customCodelets": [],
        "customCodeletCompileFlags": "",
        "updatableNamedBuffers": [],
        "enableLoadAndOffloadRNGState": False,
        "accumulationFactor": 1,
        "enableGradientAccumulation": False,
        "enablePipelining": False,
        "executionPhaseSettings": None,
        "batchSerializationSettings": None,
        "weightTensorLocationSettings": None,
        "optimizerStateTensorLocationSettings": None,
        "accumulatorTensorLocationSettings": None,
        "activationTensorLocationSettings": None,
        "automaticLossScalingSettings": None,
        "replicatedCollectivesSettings": None,
        "experimentalSettings": None,
    }


# Options that sessions, graphs or drawings follow. Every other one is refused or reported.
_FOLLOWED = {
    "numIOTiles",
    "partialsTypeMatMuls",
    "enableInplaceAmbiguityChecking",
    "replicatedGraphCount",
    "enableReplicatedGraphs",
    "enableDistributedReplicatedGraphs",
    "globalReplicationFactor",
    "dotChecks",
    "logDir",
    "dotOpNames",
    "separateCallOpPdfs",
    "firstDotOp",
    "finalDotOp",
    "enableEngineCaching",
    "cachePath",
    "enableNonStableSoftmax",
    "groupNormStridedChannelGrouping",
    "throwIfLog2ScaleTensorNotInRange",
    "enableFloatingPointChecks",
}

# Options whose effect a program could tell: a session refuses them.
_REFUSED = {
    "syntheticDataMode": "the host data are always used",
    "globalReplicaOffset": "there is one instance, whose first replica is 0",
}

# What the user should know about options that are accepted without the original's effect.
_WITHOUT_EFFECT = {
    "enableStochasticRounding": "float16 results are rounded to nearest even",
    "enableStableNorm": "norms are always computed from the centred values",
}


def _cache_folder() -> str:
    """The folder for compiled programs that the environment names; empty: none."""
    popxl, popart = (os.environ.get(name, "") for name in ("POPXL_CACHE_DIR", "POPART_CACHE_DIR"))
    if popxl and popart and popxl != popart:
        _say_which_folder(popxl, popart)
    return popxl or popart


@functools.cache  # once
def _say_which_folder(popxl: str, popart: str) -> None:
    getLogger("session").warn(
        f"POPXL_CACHE_DIR = {popxl} and POPART_CACHE_DIR = {popart} differ: the former is used"
    )


def _missing_option(name: str) -> AttributeError:
    near = nearest_names(name, _defaults())
    return AttributeError(f"there is no session option '{name}': {near}", name=name)


class SessionOptions:
    """Options of the sessions of an Ir; reading or setting an unknown one is an AttributeError."""

    def __init__(self) -> None:
        self.__dict__.update(_defaults())
        cache = _cache_folder()
        if cache:
            self.enableEngineCaching = True
            self.cachePath = cache

    def __getattr__(self, name: str) -> Any:
        raise _missing_option(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise _missing_option(name)
        self.__dict__[name] = value

    def enableExplicitIR(self, enable: bool) -> None:
        """Set the options of explicit programs together.

        Args:
            enable: Their value.
        """
        self.useHostCopyOps = enable
        self.enableExplicitMainLoops = enable
        self.explicitRecomputation = enable

    def check(self) -> dict[str, str]:
        """Find the options that were changed without an effect here.

        Returns:
            A sentence about each of them, by name.

        Raises:
            NotImplementedError: An option that a program relies on is not supported.
        """
        defaults = _defaults()
        changed = [name for name, value in self.__dict__.items() if value != defaults[name]]
        for name in changed:
            if name in _REFUSED:
                raise NotImplementedError(
                    f"session option {name} = {getattr(self, name)!r} is not supported: "
                    f"{_REFUSED[name]}. Leave it at {defaults[name]!r}"
                )
        return {
            name: _WITHOUT_EFFECT.get(name, "it changes neither results nor the plan")
            for name in changed
            if name not in _FOLLOWED
        }

    def getGlobalReplicationFactor(self) -> int:
        """Count the replicas in all instances.

        Returns:
            The number of replicas.
        """
        if self.enableDistributedReplicatedGraphs:
            return int(self.globalReplicationFactor)
        return int(self.replicatedGraphCount) if self.enableReplicatedGraphs else 1
