"""Options: every setter, and the object."""

from __future__ import annotations

import copy
import logging
import pickle
from typing import Any

import pytest
import torch

import poptorch
from poptorch._options_memory import MemoryFit
from poptorch.options import Options

# Setter -> good arguments, the value by its name before and after, bad arguments and their error.
Row = tuple[str, tuple[Any, ...], str, Any, Any, tuple[Any, ...], type[Exception], str]
SETTERS: list[Row] = [
    ("deviceIterations", (4,), "device_iterations", 1, 4, ("4",), AssertionError,
     "Unexpected type <class 'str'> for option device_iterations. Expected <class 'int'>"),
    ("deviceIterations", (True,), "device_iterations", 1, True, (0,), ValueError, "positive"),
    ("replicationFactor", (4,), "replication_factor", 1, 4, (2.0,), AssertionError,
     "Unexpected type <class 'float'> for option replication_factor"),
    ("replicationFactor", (4,), "replication_factor", 1, 4, (-1,), ValueError, "given -1"),
    ("inputReplicaGrouping", (1, poptorch.CommGroupType.Orthogonal), "input_cgt",
     poptorch.CommGroupType.Consecutive, poptorch.CommGroupType.Orthogonal,
     (1, poptorch.CommGroupType.All), ValueError, "input_group_type cannot be All"),
    ("inputReplicaGrouping", (1, poptorch.CommGroupType.Consecutive), "input_group_size", 1, 1,
     (2, poptorch.CommGroupType.Consecutive), ValueError,
     "input_group_size cannot be larger than replication_factor"),
    ("inputReplicaGrouping", (1, poptorch.CommGroupType.Consecutive), "input_group_size", 1, 1,
     ("1", poptorch.CommGroupType.Consecutive), AssertionError, "Unexpected type"),
    ("inputReplicaGrouping", (1, poptorch.CommGroupType.Consecutive), "input_group_size", 1, 1,
     (1, 1), AssertionError, "CommGroupType"),
    ("outputMode", (poptorch.OutputMode.All,), "output_mode", poptorch.OutputMode.Default,
     poptorch.OutputMode.All, (2,), AssertionError, "OutputMode"),
    ("outputMode", (poptorch.OutputMode.EveryN, 3), "output_return_period", 1, 3,
     (poptorch.OutputMode.EveryN,), AssertionError, "positive output_return_period; given None"),
    ("outputMode", (poptorch.OutputMode.Sum, 3), "output_return_period", 1, 1,
     (poptorch.OutputMode.EveryN, 0), AssertionError, "given 0"),
    ("fit_in", ("1GiB", "."), "memory_fit", None, MemoryFit(1 << 30, "."), (1.5, "."),
     AssertionError, "wanted bytes as int or a text"),
    ("fit_in", (1 << 20, ".", ["a"]), "memory_fit", None, MemoryFit(1 << 20, ".", ("a",)),
     ("1GiB", ".", "a"), AssertionError, "wanted a list of paths of modules"),
    ("fit_in", ("1 G", "."), "memory_fit", None, MemoryFit(1 << 30, "."), ("many", "."),
     ValueError, "a number of bytes such as 4GiB"),
    ("anchorTensor", ("short", "long"), "anchored_tensors", {}, {"short": ["long", None, 1]},
     ("short", 1), AssertionError, "names"),
    ("anchorTensor", ("a", "b", poptorch.OutputMode.EveryN, 2), "anchored_tensors", {},
     {"a": ["b", poptorch.OutputMode.EveryN, 2]},
     ("a", "b", poptorch.OutputMode.EveryN, None), AssertionError, "positive"),
    ("enableSyntheticData", (True,), "synthetic_data", False, True, ("yes",), AssertionError,
     "bool or an int"),
    ("enableSyntheticData", (3,), "synthetic_data", False, True, (None,), AssertionError, "None"),
    ("broadcastBuffers", (False,), "broadcast_buffers", True, False, (1,), AssertionError,
     "Unexpected type <class 'int'> for option broadcast_buffers. Expected <class 'bool'>"),
    ("updatableNamedBuffers", (["a", "b"],), "updatable_named_buffers", [], ["a", "b"],
     ("a",), AssertionError, "list of str"),
    ("autoRoundNumIPUs", (), "auto_round_num_ipus", False, True, (1,), AssertionError,
     "Unexpected type"),
    ("useIpuModel", (True,), "use_ipu_model", None, True, (1,), AssertionError, "Unexpected type"),
    ("useIpuId", (3,), "ipu_id", None, 3, ("3",), AssertionError, "Unexpected type"),
    ("useIpuId", (0,), "ipu_id", None, 0, (-1,), ValueError, "given -1"),
    ("useOfflineIpuTarget", (), "connection_type", poptorch.ConnectionType.Always,
     poptorch.ConnectionType.Never, (3,), ValueError, "wanted one of"),
    ("useOfflineIpuTarget", (21,), "offline_ipu_version", None, 21, ("2",), AssertionError,
     "Unexpected type"),
    ("connectionType", (poptorch.ConnectionType.OnDemand,), "connection_type",
     poptorch.ConnectionType.Always, poptorch.ConnectionType.OnDemand, (1,), AssertionError,
     "Unexpected type <class 'int'> for option connection_type"),
    ("syncPattern", (poptorch.SyncPattern.SinglePipeline,), "sync_pattern",
     poptorch.SyncPattern.Full, poptorch.SyncPattern.SinglePipeline, ("Full",), AssertionError,
     "Unexpected type"),
    ("setAvailableMemoryProportion", ({"IPU0": 0.5, "IPU12": 1},), "available_memory_proportion",
     {}, {0: 0.5, 12: 1}, ({"0": 0.5},), AssertionError, "'IPU0'"),
    ("setAvailableMemoryProportion", ({},), "available_memory_proportion", {}, {},
     ({"IPU0": "half"},), AssertionError, "number for IPU0"),
    ("enableExecutableCaching", ("./cache",), "cache_folder", None, "./cache", (3,),
     AssertionError, "path or None"),
    ("modelName", ("bert",), "model_name", "", "bert", (1,), AssertionError, "Unexpected type"),
    ("logDir", ("logs",), "log_dir", ".", "logs", (1,), AssertionError, "Unexpected type"),
    ("maxRepeatLogs", (None,), "max_repeat_logs", 4, None, ("4",), AssertionError,
     "Unexpected type"),
    ("maxRepeatLogs", (10,), "max_repeat_logs", 4, 10, (0,), ValueError, "positive"),
    ("showCompilationProgressBar", (False,), "show_compilation_progress_bar", True, False, (0,),
     AssertionError, "Unexpected type"),
    ("logCycleCount", (True,), "log_cycle_count", False, True, (1,), AssertionError, "bool"),
    ("enableProfiling", ("profiles",), "profile_folder", None, "profiles", (1,), AssertionError,
     "path or None"),
    ("enableProfiling", (), "profile_folder", None, ".", (True,), AssertionError, "path or None"),
    ("relaxOptimizerAttributesChecks", (), "relax_optimizer_checks", False, True, (1,),
     AssertionError, "Unexpected type"),
    ("enableStableNorm", (True,), "_Popart", None, None, (1,), AssertionError, "bool"),
    ("sourceLocationExcludes", (["a"],), "source_location_excludes",
     ["install/poptorch", "site-packages/torch", "site-packages/poptorch"], ["a"], ("a",),
     AssertionError, "list of str"),
    ("appendToLocationExcludes", ("a", "b"), "source_location_excludes",
     ["install/poptorch", "site-packages/torch", "site-packages/poptorch"],
     ["install/poptorch", "site-packages/torch", "site-packages/poptorch", "a", "b"], (1,),
     AssertionError, "wanted str"),
    ("randomSeed", (42,), "_Popart", None, None, ("42",), AssertionError, "Unexpected type"),
    ("setExecutionStrategy", (poptorch.ShardedExecution("a"),), "_Popart", None, None,
     ("sharded",), AssertionError, "setExecutionStrategy"),
    ("Precision.enableFloatingPointExceptions", (True,), "floating_point_exceptions", False, True,
     (1,), AssertionError, "bool"),
    ("Precision.enableStochasticRounding", (True,), "stochastic_rounding", False, True, (1,),
     AssertionError, "bool"),
    ("Precision.setPartialsType", (torch.half,), "partials_type", "float", "half",
     (torch.bfloat16,), ValueError, "torch.float or torch.half"),
    ("Precision.setPartialsType", (torch.float,), "partials_type", "float", "float", ("half",),
     ValueError, "given 'half'"),
    ("Precision.halfFloatCasting", (poptorch.HalfFloatCastingBehavior.Default,), "_popart", None,
     None, (), TypeError, "argument"),
    ("Precision.runningStatisticsAlwaysFloat", (True,), "_popart", None, None, (1,), ValueError,
     "bool"),
    ("Training.gradientAccumulation", (8,), "gradient_accumulation", 1, 8, (8.0,), AssertionError,
     "Unexpected type"),
    ("Training.gradientAccumulation", (1,), "gradient_accumulation", 1, 1, (0,), ValueError,
     "positive"),
    ("Training.accumulationAndReplicationReductionType", (poptorch.ReductionType.Sum,),
     "accumulation_and_replication_reduction_type", poptorch.ReductionType.Mean,
     poptorch.ReductionType.Sum, (poptorch.ReductionType.NoReduction,), ValueError, "Mean"),
    ("Training.accumulationAndReplicationReductionType", (poptorch.ReductionType.Mean,),
     "accumulation_and_replication_reduction_type", poptorch.ReductionType.Mean,
     poptorch.ReductionType.Mean, (1,), ValueError, "given 1"),
    ("Training.setMeanAccumulationAndReplicationReductionStrategy",
     (poptorch.MeanReductionStrategy.Running,), "meanAccumulationAndReplicationReductionStrategy",
     poptorch.MeanReductionStrategy.Post, poptorch.MeanReductionStrategy.Running, (0,), ValueError,
     "MeanReductionStrategy"),
    ("Training.setAutomaticLossScaling", (True,), "automatic_loss_scaling", False, True, (1,),
     AssertionError, "bool"),
    ("Training.setConvolutionDithering", (True,), "convolution_dithering", False, True, (1,),
     AssertionError, "Unexpected type"),
    ("TensorLocations.numIOTiles", (64,), "num_io_tiles", 0, 64, (33,), AssertionError,
     "numIOTiles must be an even number between 32 and 192."),
    ("TensorLocations.numIOTiles", (192,), "num_io_tiles", 0, 192, (194,), AssertionError,
     "numIOTiles must be an even number between 32 and 192."),
    *[
        (f"TensorLocations.set{kind}Location",
         (poptorch.TensorLocationSettings().useOnChipStorage(False),),
         f"location_{kind.lower()}", None, ..., (True,), AssertionError, "TensorLocationSettings")
        for kind in ("Activation", "Weight", "Optimizer", "Accumulator")
    ],
    ("Jit.traceModel", (False,), "trace_model", False, False, (True,), ValueError, "dispatcher"),
    ("Distributed.configureProcessId", (1, 2), "processId", 0, 1, (2, 2), ValueError, "given 2"),
    ("Distributed.configureProcessId", (1, 2), "numProcesses", 1, 2, (0, "1"), AssertionError,
     "Unexpected type"),
    ("Distributed.disable", (), "numProcesses", 1, 1, (1,), TypeError, "positional"),
    ("Distributed.setEnvVarNames", ("NO_SUCH_SIZE", "NO_SUCH_RANK"), "processId", 0, 0, ("a",),
     TypeError, "var_process_id"),
    ("_Popart.set", ("enableOutlining", False), "options", ..., ..., ("key", None),
     poptorch.Error, "Unknown value type <class 'NoneType'> for option key"),
    ("_Popart.setEngineOptions", ({"a": "b"},), "options", ..., ..., ({"a": 1},), poptorch.Error,
     "engineOptions"),
    ("_Popart.setPatterns", ({"PadSum": False},), "patterns", {}, {"PadSum": False},
     ({"PadSum": 1},), AssertionError, "dict of str to bool"),
    ("_Popart.setPatterns", ({}, 3), "patterns_level", 2, 3, ({}, 4), AssertionError, "level"),
]  # fmt: skip
NAMES = [f"{number}-{row[0]}" for number, row in enumerate(SETTERS)]


@pytest.fixture(autouse=True)
def _same_random_numbers() -> Any:
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def owner_and_setter(options: Options, path: str) -> tuple[Any, Any]:
    owner: Any = options
    *groups, name = path.split(".")
    for group in groups:
        owner = getattr(owner, group)
    return owner, getattr(owner, name)


@pytest.mark.parametrize("row", SETTERS, ids=NAMES)
def test_every_setter_sets_and_chains(row: Row) -> None:
    path, good, name, before, after, *_ = row
    options = Options()
    owner, setter = owner_and_setter(options, path)
    if before is not ... and name not in ("_Popart", "_popart"):
        assert getattr(owner, name) == before
    assert setter(*good) is owner
    if after is not ... and name not in ("_Popart", "_popart"):
        assert getattr(owner, name) == after
        assert owner(name) == after


@pytest.mark.parametrize("row", SETTERS, ids=NAMES)
def test_every_setter_refuses_wrong_arguments_and_keeps_the_value(row: Row) -> None:
    path, _, _, _, _, bad, error, text = row
    options = Options()
    shown = repr(options)
    _, setter = owner_and_setter(options, path)
    with pytest.raises(error) as caught:
        setter(*bad)
    assert text in str(caught.value)
    assert repr(options) == shown


@pytest.mark.parametrize("row", SETTERS, ids=NAMES)
def test_frozen_options_refuse_every_setter(row: Row) -> None:
    path, good, *_ = row
    options = Options()
    options._freeze()
    shown = repr(options)
    _, setter = owner_and_setter(options, path)
    if path == "anchorTensor":
        setter(*good)
        assert repr(options) != shown
        return
    with pytest.raises(AttributeError) as caught:
        setter(*good)
    assert str(caught.value) == "Can't modify frozen Options"
    assert repr(options) == shown
    options._unfreeze()
    setter(*good)


@pytest.mark.parametrize("row", SETTERS, ids=NAMES)
def test_clones_are_independent_and_not_frozen(row: Row) -> None:
    path, good, *_ = row
    options = Options()
    options._freeze()
    shown = repr(options)
    for clone in (options.clone(), copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        clone._unfreeze()
        owner_and_setter(clone, path)[1](*good)
        assert repr(options) == shown
    assert not options.clone()._is_frozen


def test_setters_are_all_in_the_table() -> None:
    covered = {row[0] for row in SETTERS}
    options = Options()
    groups: dict[str, Any] = {"": options, "_Popart.": options._Popart}
    for name in ("Precision", "Training", "TensorLocations", "Jit", "Distributed"):
        groups[f"{name}."] = getattr(options, name)
    others = {
        "clone", "toDict", "loadFromFile", "from_json", "defaultOutputMode",
        "disableModuleNamescope",
    }  # fmt: skip
    for prefix, group in groups.items():
        for name in dir(type(group)):
            if not name.startswith("_") and callable(getattr(type(group), name)):
                assert f"{prefix}{name}" in covered or name in others, f"{prefix}{name}"


def test_repr_lists_values_and_begins_with_the_replication_factor() -> None:
    options = Options().replicationFactor(4).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(16)
    options._Popart.set("outlineThreshold", 10.0)
    text = repr(options)
    assert text.startswith("Options(replication_factor=4, ")
    for part in ("output_mode=OutputMode.All", "gradient_accumulation=16", "outlineThreshold=10.0"):
        assert part in text


def test_unknown_names_are_attribute_errors() -> None:
    options = Options()
    with pytest.raises(AttributeError) as caught:
        _ = options.no_such_option
    assert str(caught.value) == "Invalid attribute no_such_option."
    with pytest.raises(AttributeError, match=r"^Invalid private attribute"):
        _ = options._no_such_option
    with pytest.raises(AttributeError, match=r"^Invalid option no_such_option, valid options are"):
        options.no_such_option = 4
    with pytest.raises(AttributeError, match="Invalid option Precision"):
        options.Precision = None
    with pytest.raises(AttributeError, match=r"^Invalid attribute random_seed\."):
        _ = options.random_seed
    assert not hasattr(options, "syntheticDataMode")


def test_values_can_be_set_by_name() -> None:
    options = Options()
    options.device_iterations = 3
    assert options.device_iterations == 3
    with pytest.raises(AssertionError, match="Unexpected type <class 'str'>"):
        options.device_iterations = "3"
    options.random_seed = 7
    assert options.randomSeed(8).random_seed == 8
    options._freeze()
    with pytest.raises(AttributeError, match="frozen"):
        options.device_iterations = 4


def test_random_seed_seeds_torch() -> None:
    Options().randomSeed(123)
    first = torch.rand(3)
    torch.manual_seed(123)
    assert torch.equal(first, torch.rand(3))


def test_equality_is_identity() -> None:
    options = Options()
    assert options == options
    assert options != options.clone()
    assert len({options, options.clone()}) == 2


def test_input_groups_are_checked_again_where_they_are_used() -> None:
    options = Options().replicationFactor(4)
    options.inputReplicaGrouping(4, poptorch.CommGroupType.Consecutive).replicationFactor(2)
    with pytest.raises(
        ValueError, match=r"^input_group_size cannot be larger than replication_factor"
    ):
        poptorch.inferenceModel(torch.nn.Identity(), options.clone())
    options.replicationFactor(6)
    with pytest.raises(
        ValueError, match=r"^input_group_size must be a factor of replication_factor"
    ):
        poptorch.DataLoader(options.clone(), [torch.ones(1)])
    options.inputReplicaGrouping(3, poptorch.CommGroupType.Consecutive)
    assert poptorch.DataLoader(options, [torch.ones(1)]).combinedBatchSize == 2


def test_no_input_grouping_is_groups_of_one() -> None:
    options = Options().replicationFactor(4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    assert (options.input_group_size, options.input_cgt) == (2, poptorch.CommGroupType.Orthogonal)
    options.inputReplicaGrouping(4, poptorch.CommGroupType.NoGrouping)
    assert (options.input_group_size, options.input_cgt) == (1, poptorch.CommGroupType.Consecutive)
    with pytest.raises(
        ValueError, match=r"^input_group_size must be a factor of replication_factor"
    ):
        options.inputReplicaGrouping(3, poptorch.CommGroupType.Consecutive)


def test_default_output_mode() -> None:
    options = Options()
    assert options.defaultOutputMode()
    with pytest.raises(AssertionError, match="output mode"):
        options.toDict()
    options.outputMode(poptorch.OutputMode.Final).replicationFactor(2)
    assert not options.defaultOutputMode()
    assert options.toDict()["replication_factor"] == 2
    assert options.toDict()["gradient_accumulation"] == 1


def test_module_name_scopes_can_be_disabled() -> None:
    options = Options()
    assert options.module_namescope_enabled
    assert options.disableModuleNamescope() is options
    assert not options.module_namescope_enabled


def test_caching_can_be_switched_off_again() -> None:
    options = Options().enableExecutableCaching("a").enableExecutableCaching(None)
    assert options.cache_folder is None


def test_subclasses_may_have_private_attributes_and_own_setters() -> None:
    class PopdistOptions(Options):
        def __init__(self, ipus_per_replica: int = 1) -> None:
            self._ipus_per_replica = ipus_per_replica
            super().__init__()
            super().replicationFactor(2)
            self._Distributed.__class__ = FixedDistributed
            self._inner_freeze = self._freeze
            self._freeze = self._check_and_freeze  # type: ignore[method-assign]
            self._was_frozen = 0

        def _check_and_freeze(self) -> None:
            self._was_frozen += 1
            Options._freeze(self)

        def useIpuId(self, ipu_id: int) -> Any:
            raise RuntimeError("Cannot call `useIpuId` with popdist.poptorch.Options")

    class FixedDistributed(poptorch.options._DistributedOptions):
        def disable(self) -> Any:
            raise RuntimeError("fixed")

    options = PopdistOptions(4)
    with pytest.raises(RuntimeError, match="fixed"):
        options.Distributed.disable()
    with pytest.raises(RuntimeError, match="useIpuId"):
        options.useIpuId(1)
    options._freeze()
    assert options._was_frozen == 1
    clone = options.clone()
    assert type(clone) is PopdistOptions
    assert (clone._ipus_per_replica, clone.replication_factor) == (4, 2)
    clone.deviceIterations(3)
    clone._freeze()
    assert (clone._was_frozen, options._was_frozen) == (2, 1)
    assert repr(clone).startswith("PopdistOptions(replication_factor=2, ")


def test_groups_are_classes_of_the_module() -> None:
    options = Options()
    for group in ("TensorLocations", "Distributed", "Precision", "Training", "Jit"):
        name = f"_{group.removesuffix('s')}Options"
        assert type(getattr(options, group)) is getattr(poptorch.options, name)
    assert type(options._Popart) is poptorch.options._PopartOptions
    assert options._popart is options._Popart
    clone = options.clone()
    assert clone._popart is clone._Popart is not options._Popart
    assert clone.Training._popart is clone._Popart


def test_tensor_location_settings() -> None:
    settings = poptorch.TensorLocationSettings()
    rows: list[tuple[str, Any, Any]] = [
        ("minElementsForOffChip", 4, -1),
        ("minElementsForReplicatedTensorSharding", 8, "8"),
        ("useOnChipStorage", None, 1),
        ("useReplicatedTensorSharding", True, None),
        ("useIOTilesToLoad", True, 1),
        ("useIOTilesToStore", False, 0),
    ]
    for name, good, bad in rows:
        assert getattr(settings, name)(good) is settings
        with pytest.raises(AssertionError, match="wanted"):
            getattr(settings, name)(bad)
    assert settings.use_replicated_tensor_sharding
    assert settings.min_elements_for_off_chip == 4


def test_distributed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("MY_SIZE", "2")
    monkeypatch.setenv("MY_RANK", "1")
    options = Options()
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (4, 3)
    options.Distributed.setEnvVarNames("MY_SIZE", "MY_RANK")
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (2, 1)
    options.Distributed.disable()
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (1, 0)
    monkeypatch.setenv("MY_RANK", "one")
    with pytest.raises(ValueError, match="MY_RANK: wanted a number; given 'one'"):
        options.Distributed.setEnvVarNames("MY_SIZE", "MY_RANK")


def test_deprecated_setters_warn(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(caplog.handler)
    try:
        options = Options()
        options.Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.Default)
        options.Precision.runningStatisticsAlwaysFloat(False)
        options.Jit.traceModel(False)
    finally:
        logger.removeHandler(caplog.handler)
    assert len(caplog.messages) == 3
    assert all("deprecated" in message for message in caplog.messages)


def test_settings_are_debug_messages(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(caplog.handler)
    poptorch.setLogLevel("DEBUG")
    try:
        options = Options()
        caplog.clear()
        options.deviceIterations(4).appendToLocationExcludes("here")
        options.anchorTensor("a", "b")
    finally:
        logger.removeHandler(caplog.handler)
        poptorch.setLogLevel("WARN")
    assert caplog.messages == [
        "poptorch.Options set device_iterations to value 4",
        "poptorch.Options added here to source_location_excludes",
        "poptorch.Options set anchored_tensors[a] to ['b', None, 1]",
    ]


def test_two_objects_share_nothing() -> None:
    first, second = Options(), Options()
    first.anchorTensor("a", "b").appendToLocationExcludes("x")
    first.setAvailableMemoryProportion({"IPU0": 0.1})
    first._Popart.set("firstDotOp", 1)
    assert second.anchored_tensors == {}
    assert second.available_memory_proportion == {}
    assert "x" not in second.source_location_excludes
    assert "firstDotOp" not in second._Popart.options
