"""What `import popxl_addons` binds."""

from __future__ import annotations

import types

import pytest

import popxl
import popxl_addons as addons
from popxl_addons import graph_common

MODULES = """array_munging debugging dot_tree graph graph_cache graph_common module
named_replica_grouping named_tensors ops performance_utils remote route_tensor rts streams
task_session transforms utils variable_factory"""
FUNCTIONS = """create_grad_graph_info add_variable_input add_replica_sharded_variable_input function
bound_arguments tensor_hash argument_hash get_function_hash load_remote_graph store_remote_graph
named_buffers named_variable_buffers create_remote_buffer route_tensor_into_graph is_subgraph
cross_entropy cross_entropy_with_grad host_load host_store fp8_amax_scale autodiff
autodiff_with_accumulation set_available_memory_proportion_by_ipu
set_graph_available_memory_proportion_by_ipu batch_serialise batch_serialise_fwd_and_grad
batch_serial_buffer pipelined_execution recompute_graph add_recompute_inputs disable_fc_pass
enable_fc_pass suffix_graph_name seed_variable write_variables_pb timer total_FLOPs
evaluate_ir_FLOPs evaluate_FLOPs print_FLOPs format_flops_scientific print_tensor print_text shard
unshard_arrays unshard repeat repeat_axis split2D shard2D unshard2D repeat_shard
tensor_parallel_input pad_axis squeeze_safe handle_negative_axis"""
CLASSES = """Module NameScopeMeta GraphWithNamedArgs BoundGraph NamedTensors NamedVariableFactories
VariableFactory OrderedDict GraphCache RemoteHandle InputStreams OutputStreams TaskSession
WeightsDict"""


def test_the_modules_are_attributes() -> None:
    for name in MODULES.split():
        module = getattr(addons, name)
        assert isinstance(module, types.ModuleType)
        assert module.__name__ == f"popxl_addons.{name}"
    for name in FUNCTIONS.split():
        assert isinstance(getattr(addons, name), types.FunctionType), name
    for name in CLASSES.split():
        assert isinstance(getattr(addons, name), type), name
    assert addons.GIT_COMMIT is None or isinstance(addons.GIT_COMMIT, str)


def test_functions_hide_modules_of_the_same_name() -> None:
    assert addons.autodiff is addons.transforms.autodiff
    from popxl_addons.transforms.autodiff import autodiff

    assert autodiff is addons.autodiff
    assert addons.ops.cross_entropy is addons.cross_entropy


def test_typing_aliases() -> None:
    for name in ("GraphLike", "GradGraphInfoLike", "CalledGraphsGradInfoLike"):
        assert getattr(graph_common, name) is not None
    assert popxl.Graph in graph_common.GraphLike.__args__
    assert graph_common.CalledGraphsGradInfo == dict[popxl.Graph, popxl.transforms.GradGraphInfo]


def test_names_of_the_original_implementation_say_that_they_are_not_there() -> None:
    from popxl_addons.transforms import pipelining

    for name in ("PipelineBoundGraph", "StageContext", "Stash", "Restore"):
        with pytest.raises(AttributeError, match=f"{name} is not available"):
            getattr(pipelining, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pipelining.__getattr__("nothing")
