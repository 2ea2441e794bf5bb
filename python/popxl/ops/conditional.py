"""A choice between two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.call import CallInput, CallSiteInfo, bind_inputs
from popxl.ops.utils import check_inputs as check_tensors
from popxl.tensor_base import Tensor, TensorLike


class ConditionalSiteInfo(CallSiteInfo):
    """The relation of the tensors of both branches to those of the graph that chooses.

    Input 0 of the op is the condition. The inputs of the branch for true follow, then those of the
    branch for false.
    """

    @property
    def called_graph(self) -> tuple[Graph, Graph]:
        """The graphs for true and for false."""
        then_graph, else_graph = self._pb.called_graphs
        return Graph._from_pb(then_graph), Graph._from_pb(else_graph)

    @property
    def _num_then(self) -> int:
        return int(self._pb.attributes["num_then_inputs"])

    def _branch(self, then_branch: bool) -> Graph:
        return self.called_graph[0 if then_branch else 1]

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Convert an input index of a branch to one of the op.

        Args:
            idx: The index in the branch.
            then_branch: Whether it is the branch for true.

        Returns:
            The index at the op.

        Raises:
            IndexError: The branch has no such input.
        """
        self._check_index(idx, len(self._branch(then_branch).inputs), "input")
        return 1 + idx + (0 if then_branch else self._num_then)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Convert an input index of the op to one of its branch.

        Args:
            idx: The index at the op.

        Returns:
            The index in the branch that `is_parent_index_in_then_branch` tells.

        Raises:
            IndexError: No branch has such an input.
        """
        in_then = self.is_parent_index_in_then_branch(idx)
        return idx - 1 - (0 if in_then else self._num_then)

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Convert an output index of a branch to one of the op.

        Args:
            idx: The index in the branch.
            then_branch: Whether it is the branch for true.

        Returns:
            The index at the op: the same one.

        Raises:
            IndexError: The branch has no such output.
        """
        self._check_index(idx, len(self._branch(then_branch).outputs), "output")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Convert an output index of the op to one of a branch.

        Args:
            idx: The index at the op.
            then_branch: Whether it is the branch for true.

        Returns:
            The index in the branch: the same one.

        Raises:
            IndexError: The branch has no such output.
        """
        self._check_index(idx, len(self._branch(then_branch).outputs), "output")
        return idx

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Tell which branch an input of the op is given to.

        Args:
            idx: The index at the op, at least 1: index 0 is the condition.

        Returns:
            True for the branch for true, False for the other.

        Raises:
            IndexError: No branch has such an input.
        """
        # Index 0 is the condition, which no branch gets.
        if not 1 <= idx < len(self._pb.inputs):
            raise IndexError(f"{self._pb.describe()} has no branch input at index {idx}")
        return idx <= self._num_then

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Find the tensor that is given to an input, or comes from an output, of a branch.

        Args:
            graph_tensor: An input or output of a branch; the branch for true is searched first.

        Returns:
            The tensor of the graph that chooses.

        Raises:
            IndexError: Nothing is connected to the input.
            ValueError: The tensor is neither an input nor an output of a branch.
        """
        for then_branch in (True, False):
            graph = self._branch(then_branch)
            if graph_tensor in graph.inputs:
                index = graph.inputs.index(graph_tensor)
                return self.parent_input(self.graph_to_parent_input_index(index, then_branch))
            if graph_tensor in graph.outputs:
                return self.parent_output(graph.outputs.index(graph_tensor))
        raise ValueError(f"Tensor {graph_tensor} is not an input or output of the called graph(s).")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Find the input of a branch that a tensor is given to.

        Args:
            parent_tensor: An input of the op.

        Returns:
            The input of the branch, the first one if there are several.

        Raises:
            ValueError: The tensor is not given to a branch.
        """
        for index in self._indices_of(parent_tensor):
            if index > 0:
                graph = self._branch(self.is_parent_index_in_then_branch(index))
                return graph.inputs[self.parent_to_graph_input_index(index)]
        raise ValueError(f"{parent_tensor} is not an input of a branch of {self._pb.describe()}")

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> NoReturn:
        """Refuse: branches do not change their inputs.

        Args:
            parent_tensor: The tensor that would be written.
            infer_modified_regions: Which part of it would be.

        Raises:
            NotImplementedError: Always.
        """
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
    """Run one graph if the condition is true, else the other.

    Only the graph that was chosen runs. The condition has no gradient.

    Args:
        cond: The condition: a bool tensor of one element.
        then_branch: The graph for true. It must not take inputs by reference.
        else_branch: The graph for false, with outputs of the same number, shapes and dtypes.
        then_inputs: Values for the inputs of `then_branch`, in order, as `call` takes them.
        else_inputs: Values for the inputs of `else_branch`, in order, as `call` takes them.
        then_inputs_dict: Values by input of `then_branch`.
        else_inputs_dict: Values by input of `else_branch`.

    Returns:
        One tensor for each output of the branches, as a tuple.

    Raises:
        NotImplementedError: A branch takes an input by reference.
        RuntimeError: A branch is of another Ir than the current graph.
        TypeError: `cond` is not a tensor, or a value cannot become a constant.
        ValueError: The branches have different numbers of outputs, or inputs are missing, given
            twice, too many or of another graph.
        popart_exception: Shapes or dtypes differ, or `cond` does not have one element; `cond` is no
            bool, found when a session is made.
    """
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
    """Choose between graphs as `conditional` does, and return what relates the tensors.

    The errors are those of `conditional`.

    Args:
        cond: The condition: a bool tensor of one element.
        then_branch: The graph for true. It must not take inputs by reference.
        else_branch: The graph for false, with outputs of the same number, shapes and dtypes.
        then_inputs: Values for the inputs of `then_branch`, in order.
        else_inputs: Values for the inputs of `else_branch`, in order.
        then_inputs_dict: Values by input of `then_branch`.
        else_inputs_dict: Values by input of `else_branch`.
        check_inputs: Whether missing inputs are an error; if not, they can be connected later.

    Returns:
        The relation of the tensors; its `outputs` are the results.
    """
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
