"""Options of the compiler by their names: `Options._Popart`."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from pando.missing_names import nearest_names
from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._option_values import OptionValues

_BOOL = """
enableExplicitIR enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState strictOpVersions
opxAliasChecking opxModifyChecking dotOpNames exportPoplarComputationGraph exportPoplarVertexGraph
separateCallOpPdfs enableOutlining enableOutliningCopyCostPruning rearrangeAnchorsOnHost
rearrangeStreamsOnHost enablePrefetchDatastreams enableNonStableSoftmax enableReplicatedGraphs
enableGradientAccumulation instrumentWithHardwareCycleCounter enablePipelining
disableGradAccumulationTensorStreams disableOptimizerStateTensorStreams compileEngine
constantWeights enableEngineCaching enableMergeExchange enableFloatingPointChecks
enableStochasticRounding ensureFp32LossScaleTensor explicitRecomputation enableExplicitMainLoops
useHostCopyOps aliasZeroCopy delayVarUpdates enableFullyConnectedPass enableSerializedMatmuls
enableStableNorm decomposeGradSum enableDistributedReplicatedGraphs groupHostSync
enableSupportedDataTypeCasting groupNormStridedChannelGrouping
scheduleNonWeightUpdateGradientConsumersEarly
replicatedCollectivesSettings.prepareScheduleForMergingCollectives
replicatedCollectivesSettings.mergeAllReduceCollectives
batchSerializationSettings.concatOnVirtualGraphChange
batchSerializationSettings.concatOnExecutionPhaseChange
batchSerializationSettings.concatOnPipelineStageChange
automaticLossScalingSettings.enabled
"""
_NUMBER = """
executionPhaseSettings.phases executionPhaseSettings.stages firstDotOp finalDotOp numIOTiles
mergeVarUpdateMemThreshold looseThresholdAtPeak accumulationFactor swapLimitScheduler
globalReplicationFactor globalReplicaOffset defaultBufferingDepth defaultPrefetchBufferingDepth
compilationProgressTotal transitiveClosureOptimizationThreshold
accumulateOuterFragmentSettings.schedule autodiffSettings.stitchStrategy
batchSerializationSettings.transformContext batchSerializationSettings.method
batchSerializationSettings.batchSchedule batchSerializationSettings.factor autoRecomputation
mergeVarUpdate virtualGraphMode syntheticDataMode subgraphCopyingStrategy
accumulationAndReplicationReductionType meanAccumulationAndReplicationReductionStrategy
automaticLossScalingSettings.gradientTensorTrackingMethod automaticLossScalingSettings.updatePeriod
"""
_STRING = """
cachePath partialsTypeMatMuls customCodeletCompileFlags serializedPoprithmsShiftGraphsDir
kahnTieBreaker saveInitializersToFile logDir
"""
_REAL = """
outlineSequenceBreakCost outlineThreshold timeLimitScheduler
automaticLossScalingSettings.thresholdUpperCountProportion
automaticLossScalingSettings.binEdgeLocation
"""
_STRINGS = """
dotChecks hardwareInstrumentations customCodelets updatableNamedBuffers
accumulateOuterFragmentSettings.excludedVirtualGraphs
"""
_MAP = """
engineOptions reportOptions convolutionOptions matmulOptions lstmOptions gclOptions
"""
# The values of numbers that stand for the members of an enum, where a wrong one changes results.
_CHOICES = {
    "syntheticDataMode": range(4),
    "accumulationAndReplicationReductionType": range(2),
    "meanAccumulationAndReplicationReductionStrategy": range(3),
}


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str) for pair in value.items() for one in pair
    )


def _are_strings(value: object) -> bool:
    return isinstance(value, (list, set, tuple)) and all(isinstance(one, str) for one in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Name of a type -> its options, and what their values may be.
_TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "bool": (_BOOL, lambda value: isinstance(value, bool)),
    "uint64": (_NUMBER, _is_number),
    "string": (_STRING, lambda value: isinstance(value, str)),
    "double": (_REAL, lambda value: isinstance(value, float) or _is_number(value)),
    "container": (_STRINGS, _are_strings),
    "map": (_MAP, _is_map),
}
_TYPE_OF = {name: kind for kind, (names, _) in _TYPES.items() for name in names.split()}


def _type_name(key: str, value: object) -> str:
    """The first type that a value has."""
    for name, (_, accepts) in _TYPES.items():
        if accepts(value):
            return name
    if isinstance(value, float):
        return "double"
    raise createPoptorchError(
        f"Unknown value type {type(value)} for option {key}: {value!r}. Wanted a bool, a float, an "
        "int from 0 on, a str, a list or set of str, or a dict of str"
    )


def check_popart_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown names and values of wrong types, at compile time.

    Args:
        options: The values by name.

    Raises:
        Error: There is one.
    """
    for key, value in options.items():
        given = _type_name(key, value)
        if key not in _TYPE_OF:
            raise createPoptorchError(
                f"Unknown {given} option {key}: {nearest_names(key, _TYPE_OF)}"
            )
        kind = _TYPE_OF[key]
        if not _TYPES[kind][1](value):
            raise createPoptorchError(
                f"Unknown {given} option {key}: it is a {kind} option; given {value!r}"
            )
        if key in _CHOICES and value not in _CHOICES[key]:
            raise createPoptorchError(
                f"Unknown value of option {key}: wanted one of {list(_CHOICES[key])}; given "
                f"{value!r}"
            )


def environment_engine_options() -> dict[str, str]:
    """Read POPLAR_ENGINE_OPTIONS.

    Returns:
        The options by name; empty where the variable is not set.

    Raises:
        ValueError: It is no JSON object of strings.
    """
    text = os.environ.get("POPLAR_ENGINE_OPTIONS", "")
    if not text:
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise ValueError(f"POPLAR_ENGINE_OPTIONS = {text!r} is no JSON: {error}") from error
    if not _is_map(options):
        raise ValueError(f"POPLAR_ENGINE_OPTIONS: wanted a JSON object of strings; given {text!r}")
    found: dict[str, str] = options
    return found


class _PopartOptions(OptionValues):
    """Options of the compiler by name; most of them are accepted and change nothing here."""

    def __init__(self) -> None:
        super().__init__({"patterns": {}, "patterns_level": 2})
        self._options: dict[str, Any] = {
            "instrumentWithHardwareCycleCounter": False,
            "rearrangeAnchorsOnHost": False,
        }

    @property
    def options(self) -> dict[str, Any]:
        """The options that were set, and the two that always are."""
        return self._options

    def set(self, key: str, value: Any) -> _PopartOptions:
        """Set an option of the compiler.

        Args:
            key: Its name; an unknown one is refused at compile time.
            value: A bool, int, float, str, list or set of str, dict of str, or a member of an enum
                of ints.

        Returns:
            The group itself.

        Raises:
            Error: The value is of no such type.
            AttributeError: The options are frozen.
        """
        self._check_not_frozen()
        if isinstance(value, enum.Enum):
            value = value.value
        _type_name(key, value)
        if key == "logDir":
            logger.warning("logDir is not an option of _Popart: use Options.logDir instead")
            return self
        self._options[key] = value
        logger.debug("poptorch.Options set _Popart[%s] to %s", key, value)
        return self

    def setEngineOptions(self, engine_options: dict[str, str]) -> _PopartOptions:
        """Add options of the engine.

        Args:
            engine_options: The options by name. Those of POPLAR_ENGINE_OPTIONS stand over them.

        Returns:
            The group itself.

        Raises:
            Error: It is no dictionary of strings.
            AttributeError: The options are frozen.
        """
        if not _is_map(engine_options):
            raise createPoptorchError(
                "Unknown value type for option engineOptions: wanted a dict of str; given "
                f"{engine_options!r}"
            )
        return self.set(
            "engineOptions", {**self._options.get("engineOptions", {}), **engine_options}
        )

    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> _PopartOptions:
        """Choose patterns of the compiler; they change nothing here.

        Args:
            patterns: Whether each of the patterns named is on.
            level: Which are on by default: 0 none, 1 few, 2 the usual ones, 3 all.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are of other types, or there is no such level.
            AttributeError: The options are frozen.
        """
        assert isinstance(patterns, dict) and all(
            isinstance(name, str) and isinstance(is_on, bool) for name, is_on in patterns.items()
        ), f"setPatterns: wanted a dict of str to bool; given {patterns!r}"
        assert isinstance(level, int) and 0 <= level <= 3, (
            f"setPatterns: wanted a level of 0 to 3; given {level!r}"
        )
        self._set("patterns", dict(patterns))
        self._set("patterns_level", level)
        return self

    def _shown(self) -> dict[str, Any]:
        return {**self._values, **self._options}
