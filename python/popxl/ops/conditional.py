"""A choice between two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.call import CallInput, CallSiteInfo, bind_inputs
from popxl.ops.utils import check_inputs as check_tensors
from popxl.tensor import Tensor, TensorLike


class ConditionalSiteInfo(CallSiteInfo):
    """Relates the tensors of both branches to those of the graph that chooses."""

    @property
    def called_graph(self) -> tuple[Graph, Graph]:
        """The graphs for true and false."""
        then_graph, else_graph = self._pb.called_graphs
        return Graph._from_pb(then_graph), Graph._from_pb(else_graph)

    @property
    def _num_then(self) -> int:
        return int(self._pb.attributes["num_then_inputs"])

    def _branch(self, then_branch: bool) -> Graph:
        return self.called_graph[0 if then_branch else 1]

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Input index of the op for input `idx` of a branch."""
        self._check_index(idx, len(self._branch(then_branch).inputs), "input")
        return 1 + idx + (0 if then_branch else self._num_then)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Input index of its branch for input `idx` of the op."""
        in_then = self.is_parent_index_in_then_branch(idx)
        return idx - 1 - (0 if in_then else self._num_then)

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Output index of the op for output `idx` of a branch."""
        self._check_index(idx, len(self._branch(then_branch).outputs), "output")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Output index of a branch for output `idx` of the op."""
        self._check_index(idx, len(self._branch(then_branch).outputs), "output")
        return idx

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Whether input `idx` of the op is given to the graph for true."""
        # Index 0 is the condition, which no branch gets.
        if not 1 <= idx < len(self._pb.inputs):
            raise IndexError(f"{self._pb.describe()} has no branch input at index {idx}")
        return idx <= self._num_then

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The parent tensor of an input or output of a branch."""
        for then_branch in (True, False):
            graph = self._branch(then_branch)
            if graph_tensor in graph.inputs:
                index = graph.inputs.index(graph_tensor)
                return self.parent_input(self.graph_to_parent_input_index(index, then_branch))
            if graph_tensor in graph.outputs:
                return self.parent_output(graph.outputs.index(graph_tensor))
        raise ValueError(f"Tensor {graph_tensor} is not an input or output of the called graph(s).")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The first branch input that the parent tensor is given to."""
        for index in self._indices_of(parent_tensor):
            if index > 0:
                graph = self._branch(self.is_parent_index_in_then_branch(index))
                return graph.inputs[self.parent_to_graph_input_index(index)]
        raise ValueError(f"{parent_tensor} is not an input of a branch of {self._pb.describe()}")

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> NoReturn:
        """Not available: branches do not change their inputs."""
        raise NotImplementedError("set_parent_input_modified is not supported for conditional")

    def _check_index(self, idx: int, count: int, what: str) -> None:
        if not 0 <= idx < count:
            raise IndexError(f"a branch of {self._pb.describe()} has no {what} at index {idx}")


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[CallInput] | None = None,
    else_inputs: Iterable[CallInput] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Runs one graph if `cond` is true, else the other, and returns its outputs."""
    return conditional_with_info(
        cond,
        then_branch,
        else_branch,
        then_inputs,
        else_inputs,
        then_inputs_dict,
        else_inputs_dict,
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[CallInput] | None = None,
    else_inputs: Iterable[CallInput] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """`conditional`, returning what relates the tensors of the graphs."""
    check_tensors(cond=cond)
    if len(then_branch.outputs) != len(else_branch.outputs):
        raise ValueError(
            f"conditional: wanted branches with equally many outputs; {then_branch.id} has "
            f"{len(then_branch.outputs)} and {else_branch.id} has {len(else_branch.outputs)}"
        )
    for branch in (then_branch, else_branch):
        if len(branch._by_ref_inputs) > 0:
            raise NotImplementedError(
                f"conditional: by-reference inputs of a branch are not supported; {branch.id} has "
                f"{[t.name for t in branch._by_ref_inputs]}"
            )
    then_bound = bind_inputs(
        then_branch, then_inputs or (), then_inputs_dict, check_inputs, "then_branch"
    )
    else_bound = bind_inputs(
        else_branch, else_inputs or (), else_inputs_dict, check_inputs, "else_branch"
    )
    names = [
        f"{then_output.name}_or_{else_output.name}"
        for then_output, else_output in zip(then_branch.outputs, else_branch.outputs, strict=True)
    ]
    op = create_op(
        "If",
        [cond, *then_bound, *else_bound],
        {"num_then_inputs": len(then_bound)},
        names=names,
        settings_name=f"{get_current_graph().name}--if--{then_branch.name}--{else_branch.name}",
        called_graphs=[then_branch, else_branch],
    )
    return ConditionalSiteInfo(op)
