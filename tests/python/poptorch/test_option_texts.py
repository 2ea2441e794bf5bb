"""Options from files, JSON and the environment, and options of the compiler by name."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest

import popart
import poptorch
from poptorch import poptorch_core
from poptorch.options import Options


def load(tmp_path: Path, text: str, options: Options | None = None) -> Options:
    path = tmp_path / "poptorch.conf"
    path.write_text(text)
    return (Options() if options is None else options).loadFromFile(path)


def test_a_file_of_the_user_guide(tmp_path: Path) -> None:
    options = load(
        tmp_path,
        """deviceIterations(1)
setExecutionStrategy(poptorch.ShardedExecution())
replicationFactor(1)
enableSyntheticData(True)
""",
        Options().deviceIterations(4),
    )
    assert options.device_iterations == 1
    assert isinstance(options._execution_strategy, poptorch.ShardedExecution)
    assert options.synthetic_data


def test_what_lines_may_say(tmp_path: Path) -> None:
    options = load(
        tmp_path,
        """
# a comment
   Training.gradientAccumulation(2 * 4)   # and one behind a line
outputMode(poptorch.OutputMode.EveryN, output_return_period=3)
Precision.setPartialsType(torch.half).enableStochasticRounding(not False)
TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("a").ipu(1), ["b", "c"]))
setAvailableMemoryProportion({"IPU0": 0.5})
_Popart.set("outlineThreshold", -1.5 + 11)
randomSeed(options.device_iterations + 41)
device_iterations = 3
connectionType(poptorch.enums.ConnectionType.OnDemand)
""",
    )
    assert options.Training.gradient_accumulation == 8
    assert (options.output_mode, options.output_return_period) == (poptorch.OutputMode.EveryN, 3)
    assert options.Precision.partials_type == "half"
    assert options.Precision.stochastic_rounding
    assert options.TensorLocations.location_weight.use_on_chip_storage is False
    assert options._execution_strategy.place("a", None) == (0, 0, 1)
    assert options._execution_strategy.place("c", None) == (1, 0, 1)
    assert options.available_memory_proportion == {0: 0.5}
    assert options._Popart.options["outlineThreshold"] == 9.5
    assert (options.random_seed, options.device_iterations) == (42, 3)
    assert options.connection_type == poptorch.ConnectionType.OnDemand


def test_bad_syntax_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(poptorch.ConfigFileError) as caught:
        load(tmp_path, "deviceIterations(1)\n\nreplicationFactor(1\n")
    first, second = str(caught.value).split("\n")
    assert first.startswith(f"SyntaxError at line 3 of {tmp_path}/poptorch.conf: ")
    assert second == "> options.replicationFactor(1"
    assert poptorch.options.ConfigFileError is poptorch.ConfigFileError


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("deviceIterations(x)", "'x' is not one of options, poptorch, torch"),
        ("deviceIterations(poptorch._devices.os.getpid())", "'poptorch._devices' is not read"),
        ("deviceIterations(torch.seed())", "'torch.seed' is not read"),
        ("logDir(__import__('os').getcwd())", "'__import__' is not one of"),
        ("deviceIterations(1); import os", "wanted a call of a setter"),
        ("__class__.__init__(1)", "'__class__' of"),
        ("clone().__dict__", "'__dict__' of"),
        ("logDir('a'.upper())", "'upper' of 'a' is not read"),
        ("logDir('a' * 1000000000)", "no arithmetic of numbers"),
        ("deviceIterations(2 ** 3)", "is not read in this file"),
        ("deviceIterations((lambda: 1)())", "is not read in this file"),
        ("deviceIterations([n for n in (1,)][0])", "is not read in this file"),
        ("appendToLocationExcludes(*['a'])", "arguments with *"),
        ("deviceIterations(**{'device_iterations': 2})", "arguments with **"),
        ("device_iterations(3)", "'options.device_iterations' cannot be called"),
        ("_values = {}", "'_values' cannot be set"),
        ("Training.gradientAccumulation(poptorch.OutputMode.All.name)", "'name' of"),
        ("deviceIterations(poptorch)", None),
    ],
)
def test_lines_execute_nothing_else(tmp_path: Path, line: str, text: str | None) -> None:
    error = AssertionError if text is None else poptorch.ConfigFileError
    with pytest.raises(error) as caught:
        load(tmp_path, f"{line}\n")
    if text is not None:
        assert str(caught.value).startswith(f"Error at line 1 of {tmp_path}/poptorch.conf: ")
        assert text in str(caught.value)
        assert str(caught.value).endswith(f"\n> options.{line}")


def test_errors_of_setters_propagate(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Unexpected type"):
        load(tmp_path, "deviceIterations('1')")
    with pytest.raises(AttributeError, match="Invalid attribute noSuchSetter"):
        load(tmp_path, "noSuchSetter(1)")
    with pytest.raises(FileNotFoundError):
        Options().loadFromFile(tmp_path / "nothing.conf")


def test_json() -> None:
    options = Options().from_json(
        '{"Training.gradientAccumulation": 4, "outputMode": ["OutputMode.EveryN", 2],'
        ' "modelName": "Not.AnEnum", "logDir": "OutputMode.Nothing",'
        ' "setAvailableMemoryProportion": {"IPU1": 0.25}, "_Popart.set": ["firstDotOp", 3],'
        ' "autoRoundNumIPUs": [], "sourceLocationExcludes": [["a", "b"]]}'
    )
    assert options.Training.gradient_accumulation == 4
    assert (options.output_mode, options.output_return_period) == (poptorch.OutputMode.EveryN, 2)
    assert (options.model_name, options.log_dir) == ("Not.AnEnum", "OutputMode.Nothing")
    assert options.available_memory_proportion == {1: 0.25}
    assert options._Popart.options["firstDotOp"] == 3
    assert options.auto_round_num_ipus
    assert options.source_location_excludes == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"noSuchSetter": 1}', "no setter of options 'noSuchSetter'"),
        ('{"_freeze": []}', "no setter of options '_freeze'"),
        ('{"Training": 1}', "no setter of options 'Training'"),
        ('{"Training.__init__": [1]}', "no setter of options 'Training.__init__'"),
        ("[1]", "wanted an object"),
        ("{", "Expecting property name"),
    ],
)
def test_bad_json(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options().from_json(text)
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", text)
    with pytest.raises(ValueError, match=rf"^POPTORCH_DEFAULT_OPTIONS: .*{message}"):
        Options()


def test_the_environment_comes_before_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "/nowhere/a")
    assert Options().cache_folder == "/nowhere/a"
    monkeypatch.setenv(
        "POPTORCH_DEFAULT_OPTIONS",
        '{"enableExecutableCaching": "/nowhere/b", "deviceIterations": 3}',
    )
    options = Options()
    assert (options.cache_folder, options.device_iterations) == ("/nowhere/b", 3)
    assert options.deviceIterations(5).device_iterations == 5


def test_profiling_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "/elsewhere"}')
    options = Options().enableProfiling("here")
    assert options.profile_folder == "/elsewhere"
    assert "autoReport.directory = /elsewhere of POPLAR_ENGINE_OPTIONS" in capsys.readouterr().err
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "true"}')
    assert Options().profile_folder == "."
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "false"}')
    assert Options().enableProfiling("here").profile_folder is None
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "{")
    with pytest.raises(ValueError, match=r"POPLAR_ENGINE_OPTIONS = '{' is no JSON"):
        _ = Options().profile_folder
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"a": 1}')
    with pytest.raises(ValueError, match="object of strings"):
        Options().enableProfiling()


def check(options: Options) -> None:
    poptorch_core._validateOptions(options.outputMode(poptorch.OutputMode.All).toDict())


class Schedule(enum.Enum):
    Serial = 1


def test_enums_of_popart_are_passed_on() -> None:
    assert int(popart.AccumulateOuterFragmentSchedule.OverlapMemoryOptimized) == 3
    options = Options()
    options._Popart.set("subgraphCopyingStrategy", popart.SubgraphCopyingStrategy.JustInTime)
    schedule = int(popart.AccumulateOuterFragmentSchedule.Serial)
    options._Popart.set("accumulateOuterFragmentSettings.schedule", schedule)
    check(options)
    assert options._Popart.options["subgraphCopyingStrategy"] == 1


GOOD: list[tuple[str, Any]] = [
    ("enableOutlining", True),
    ("outlineThreshold", 10.0),
    ("outlineThreshold", 10),
    ("automaticLossScalingSettings.enabled", True),
    ("automaticLossScalingSettings.updatePeriod", 3),
    ("automaticLossScalingSettings.binEdgeLocation", 0.5),
    ("automaticLossScalingSettings.thresholdUpperCountProportion", 0.5),
    ("batchSerializationSettings.factor", 4),
    ("batchSerializationSettings.concatOnPipelineStageChange", False),
    ("accumulateOuterFragmentSettings.schedule", Schedule.Serial),
    ("accumulateOuterFragmentSettings.excludedVirtualGraphs", ["0"]),
    ("accumulationAndReplicationReductionType", poptorch.ReductionType.Sum),
    ("kahnTieBreaker", "fifo"),
    ("dotChecks", {"Fwd0", "All"}),
    ("engineOptions", {"target.syncReplicasIndependently": "true"}),
    ("swapLimitScheduler", 10**9),
]


@pytest.mark.parametrize(
    ("key", "value"), GOOD, ids=[f"{n}-{row[0]}" for n, row in enumerate(GOOD)]
)
def test_known_compiler_options(key: str, value: Any) -> None:
    options = Options()
    assert options._Popart.set(key, value) is options._Popart
    stored = value.value if isinstance(value, enum.Enum) else value
    assert options._Popart.options[key] == stored
    check(options)
    assert options.clone()._Popart.options[key] == stored


# The keys of the specification, by the values that each kind takes.
KEYS: list[tuple[Any, str]] = [
    (1, """
autodiffSettings.stitchStrategy batchSerializationSettings.transformContext
batchSerializationSettings.method batchSerializationSettings.batchSchedule
batchSerializationSettings.factor autoRecomputation mergeVarUpdate virtualGraphMode
syntheticDataMode subgraphCopyingStrategy accumulationAndReplicationReductionType
meanAccumulationAndReplicationReductionStrategy
automaticLossScalingSettings.gradientTensorTrackingMethod
automaticLossScalingSettings.updatePeriod executionPhaseSettings.phases
executionPhaseSettings.stages firstDotOp finalDotOp numIOTiles mergeVarUpdateMemThreshold
looseThresholdAtPeak accumulationFactor swapLimitScheduler globalReplicationFactor
globalReplicaOffset defaultBufferingDepth defaultPrefetchBufferingDepth compilationProgressTotal
transitiveClosureOptimizationThreshold accumulateOuterFragmentSettings.schedule
"""),
    ("text", """
cachePath partialsTypeMatMuls customCodeletCompileFlags serializedPoprithmsShiftGraphsDir
kahnTieBreaker saveInitializersToFile
"""),
    (True, """
batchSerializationSettings.concatOnVirtualGraphChange
batchSerializationSettings.concatOnExecutionPhaseChange
batchSerializationSettings.concatOnPipelineStageChange automaticLossScalingSettings.enabled
enableExplicitIR enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState strictOpVersions
opxAliasChecking opxModifyChecking dotOpNames exportPoplarComputationGraph
exportPoplarVertexGraph separateCallOpPdfs enableOutlining enableOutliningCopyCostPruning
rearrangeAnchorsOnHost rearrangeStreamsOnHost enablePrefetchDatastreams enableNonStableSoftmax
enableReplicatedGraphs enableGradientAccumulation instrumentWithHardwareCycleCounter
enablePipelining disableGradAccumulationTensorStreams disableOptimizerStateTensorStreams
compileEngine constantWeights enableEngineCaching enableMergeExchange enableFloatingPointChecks
enableStochasticRounding ensureFp32LossScaleTensor explicitRecomputation
enableExplicitMainLoops useHostCopyOps aliasZeroCopy delayVarUpdates enableFullyConnectedPass
enableSerializedMatmuls enableStableNorm decomposeGradSum enableDistributedReplicatedGraphs
groupHostSync enableSupportedDataTypeCasting groupNormStridedChannelGrouping
scheduleNonWeightUpdateGradientConsumersEarly
replicatedCollectivesSettings.prepareScheduleForMergingCollectives
replicatedCollectivesSettings.mergeAllReduceCollectives
"""),
    (0.5, """
automaticLossScalingSettings.thresholdUpperCountProportion
automaticLossScalingSettings.binEdgeLocation outlineSequenceBreakCost outlineThreshold
timeLimitScheduler
"""),
    (["text"], """
accumulateOuterFragmentSettings.excludedVirtualGraphs dotChecks hardwareInstrumentations
customCodelets updatableNamedBuffers
"""),
    ({"key": "text"}, """
engineOptions reportOptions convolutionOptions matmulOptions lstmOptions gclOptions
"""),
]  # fmt: skip


def test_every_compiler_option_of_the_specification_is_known() -> None:
    options = Options()
    for value, keys in KEYS:
        for key in keys.split():
            options._Popart.set(key, value)
    check(options)
    for value, keys in KEYS:
        wrong = "text" if value == 1 or value == 0.5 else 1
        for key in keys.split():
            assert options._Popart.options[key] == value
            other = Options()
            other._Popart.set(key, wrong)
            with pytest.raises(poptorch.Error, match=rf"Unknown .* option {key}"):
                check(other)


BAD: list[tuple[str, Any, str]] = [
    ("enableOutlinin", True, "Unknown bool option enableOutlinin"),
    ("noSuchNumber", 3, "Unknown uint64 option noSuchNumber"),
    ("noSuchString", "a", "Unknown string option noSuchString"),
    ("noSuchReal", 0.5, "Unknown double option noSuchReal"),
    ("noSuchStrings", ["a"], "Unknown container option noSuchStrings"),
    ("noSuchMap", {"a": "b"}, "Unknown map option noSuchMap"),
    ("enableOutlining", 1, "Unknown uint64 option enableOutlining: it is a bool option; given 1"),
    ("firstDotOp", True, "Unknown bool option firstDotOp: it is a uint64 option"),
    ("firstDotOp", 0.5, "Unknown double option firstDotOp"),
    ("outlineThreshold", "10", "Unknown string option outlineThreshold"),
    ("kahnTieBreaker", 1, "Unknown uint64 option kahnTieBreaker"),
    ("batchSerializationSettings.concatOnPipelineStageChange", 1, "it is a bool option"),
    ("accumulationAndReplicationReductionType", 2, "wanted one of [0, 1]; given 2"),
    ("syntheticDataMode", 4, "wanted one of [0, 1, 2, 3]; given 4"),
]


@pytest.mark.parametrize(("key", "value", "text"), BAD, ids=[row[2][:40] for row in BAD])
def test_unknown_compiler_options_fail_at_compile_time(key: str, value: Any, text: str) -> None:
    options = Options()
    options._Popart.set(key, value)
    with pytest.raises(poptorch.Error) as caught:
        check(options)
    assert text in str(caught.value)
    assert caught.value.type == "poptorch_py_error"


@pytest.mark.parametrize("value", [None, -1, [1], {"a": 1}, object, 1j])
def test_values_of_other_types_are_refused_at_once(value: Any) -> None:
    options = Options()
    with pytest.raises(poptorch.Error, match=r"Unknown value type .* for option enableOutlining"):
        options._Popart.set("enableOutlining", value)
    assert "enableOutlining" not in options._Popart.options


def test_preset_compiler_options() -> None:
    assert Options()._Popart.options == {
        "instrumentWithHardwareCycleCounter": False,
        "rearrangeAnchorsOnHost": False,
    }


def test_setters_and_compiler_options_are_the_same_values() -> None:
    options = Options()
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    assert options._Popart.options["accumulationAndReplicationReductionType"] == 0
    options._Popart.set("accumulationAndReplicationReductionType", 1)
    options._Popart.set("meanAccumulationAndReplicationReductionStrategy", 0)
    assert options.Training.accumulation_and_replication_reduction_type == 1
    assert options.Training.meanAccumulationAndReplicationReductionStrategy == 0
    options._Popart.set("syntheticDataMode", 1)
    assert options.synthetic_data
    options.Training.setConvolutionDithering(True)
    assert options._Popart.options["convolutionOptions"] == {"enableConvolutionDithering": "true"}
    check(options)


def test_the_log_folder_is_no_compiler_option(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options()
    options._Popart.set("logDir", "somewhere")
    assert "logDir" not in options._Popart.options
    assert "use Options.logDir" in capsys.readouterr().err
