"""The dispatch mode that records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._private_torch import (
    Operator,
    RecordingMode,
    as_compiled,
    call_batched,
    enable_python_dispatcher,
    full_name,
    is_differentiated,
    is_for_vmap,
    with_compiler_on_demand,
    without_modes,
)
from poptorch._trace.complex_numbers import ComplexNumbers
from poptorch._trace.decompositions import decomposition_of
from poptorch._trace.dynamic_shapes import in_fixed_shape
from poptorch._trace.known_values import KnownValues
from poptorch._trace.recording import (
    Node,
    Placement,
    Recording,
    check_not_empty,
    tensors_in,
)

_PACKAGE = str(Path(__file__).parents[1])


ShapeRule = Callable[..., Any]


# Operators that change the shape of a tensor and leave its elements where they are.
_RESHAPES_IN_PLACE = frozenset(
    f"aten::{name}_"
    for name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "as_strided")
)

# Behind the end of a block, until another one begins.
NO_BLOCK = Placement(ipu=-1)

_REGION_BEGINS = ("start_for_loop", "start_if_block", "call_cpu_op", "begin_function")
_REGION_ENDS = ("end_for_loop", "end_if_block", "end_cpu_op", "end_function")
# These compute nothing: they are where their tensor was made.
_HINTS = (
    "set_matmul_serialization",
    "set_overlap_for_input",
    "set_overlap_for_output",
    "set_available_memory",
)


class ScopeState:
    """What annotations have set at this point of the program."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.placement = Placement()
        self.block = -1
        self._regions: list[Placement] = []

    def mark(self, name: str, args: tuple[Any, ...]) -> Placement:
        """Take note of an operator of `torch.ops.poptorch`.

        Args:
            name: Its name without namespace.
            args: Its arguments.

        Returns:
            Where it runs: a loop, condition or call of the host as a whole is where it begins.
        """
        if name == "begin_ipu_block":
            stage, phase, ipu = args
            self.placement = Placement(ipu, stage, phase)
        elif name == "end_ipu_block":
            self.placement = NO_BLOCK
        elif name == "push_name_scope":
            self.names.append(args[0])
        elif name == "pop_name_scope":
            self.names.pop()
        elif name in _REGION_BEGINS:
            self._regions.append(self.placement)
        elif name in _REGION_ENDS:
            return self._regions.pop()
        return self.placement

    @property
    def scope(self) -> str:
        """The names in force, joined by `/`."""
        return "/".join(self.names)


class Recorder(RecordingMode):  # type: ignore[no-untyped-call]
    """Records the calls of operators on meta tensors above autograd.

    Calls on tensors of the CPU alone run as they are and leave no trace. A tensor of the CPU beside
    tensors of the trace is a constant. An operator that nothing lowers is taken apart by rules of
    torch; what cannot be taken apart is noted as unsupported.

    Args:
        lowers: Whether an operator is lowered as it is, by name with namespace.
        shape_rules: Results in place of those of torch's meta kernel, by name of the operator.
        excludes: Parts of file names that are not the user's program.
    """

    def __init__(
        self,
        lowers: Callable[[str], bool],
        shape_rules: Mapping[str, ShapeRule],
        excludes: list[str],
    ) -> None:
        super().__init__()
        self.recording = Recording()
        self.state = ScopeState()
        self._lowers = lowers
        self._shape_rules = shape_rules
        self._excludes = tuple(excludes)
        self._known = KnownValues(self.recording.data_of, memory_of)
        self._constants: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.complex_numbers = ComplexNumbers(self.recording.data_of, self.constant_for, memory_of)

    @contextmanager
    def recording_on(self) -> Iterator[Recorder]:
        """Record what runs inside.

        Yields:
            The recorder.
        """
        with ExitStack() as stack:
            stack.enter_context(with_compiler_on_demand())
            stack.enter_context(as_compiled())
            stack.enter_context(torch.device("meta"))
            stack.enter_context(enable_python_dispatcher())
            stack.enter_context(self)
            yield self

    def constant_for(self, data: torch.Tensor) -> torch.Tensor:
        """Find the tensor of the trace that stands for a tensor of the CPU.

        Args:
            data: The tensor of the CPU, with the values that it has now.

        Returns:
            A meta tensor; the same one while the values are the same.
        """
        key = (id(data), data._version)
        if key not in self._constants:
            self._constants[key] = (data, self.recording.constant(data))
        return self._constants[key][1]

    def __torch_dispatch__(
        self,
        func: Operator,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record one call.

        Args:
            func: The operator.
            types: Not used.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What the operator returns on meta tensors.
        """
        del types
        kwargs = kwargs or {}
        name = full_name(func)
        given = list(tensors_in((args, kwargs)))
        if is_for_vmap(func, given):
            return call_batched(self, func, given, args, kwargs)
        self._check_not_differentiated(name, given)
        traced = any(tensor.device.type == "meta" for tensor in given)
        if given and not traced and func.namespace != "poptorch":
            return func(*args, **kwargs)
        if name in ("aten::item", "aten::_local_scalar_dense"):
            return self._known_value("aten::item", given[0]).item()
        if name in ("aten::equal", "aten::allclose"):
            return func(*(self._known_value(name, t) for t in given), *args[2:], **kwargs)
        if any(tensor.device.type != "meta" for tensor in given):
            args, kwargs = self._with_constants(args), self._with_constants(kwargs)
        bound = _bound(func._schema, args, kwargs)
        if self.complex_numbers.concerns(given, bound, _short_name(func)):
            return self._call_complex(func, args, kwargs, bound)
        if func._schema.name in _RESHAPES_IN_PLACE:
            return self._reshaped_in_place(func, args, kwargs)
        with self:
            fixed = in_fixed_shape(func, bound, self._value_of, self._user_location)
        if fixed is not None:
            return self._with_constants(fixed)
        if not self._lowers(func._schema.name) and (taken_apart := decomposition_of(func)):
            with self:
                return taken_apart(*args, **kwargs)
        from_grad = any(tensor.requires_grad for tensor in given)
        try:
            result = self._shape_rules.get(name, func)(*args, **kwargs)
        except NotImplementedError:
            self._note_unsupported(func)
            self.recording.check_supported()
            raise
        outputs = list(tensors_in(result))
        self._check_not_differentiated(name, outputs)
        result = _with_gradient(func, given, _with_own_memory(func, given, result))
        outputs = list(tensors_in(result))
        if given or func.namespace == "poptorch" or any(t.device.type == "meta" for t in outputs):
            self._note(func, args, kwargs, outputs, from_grad)
        return result

    def _check_not_differentiated(self, name: str, tensors: list[torch.Tensor]) -> None:
        if any(map(is_differentiated, tensors)):
            raise createPoptorchError(
                f"torch.func.grad, jvp and what is made of them are unsupported in a program; "
                f"{name} is called in one at {self._user_location()}. Use torch.autograd.grad"
            )

    def _known_value(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        value = self._value_of(tensor)
        if value is not None:
            return value
        raise createPoptorchError(
            f"{name} is only supported in eager mode: at {self._user_location()} the value of "
            f"a tensor of shape {list(tensor.shape)} is not known while the model is traced. Use "
            "poptorch.cond or poptorch.for_loop for control flow that depends on values"
        )

    def _call_complex(
        self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], bound: dict[str, Any]
    ) -> Any:
        if self.complex_numbers.knows(_short_name(func)):
            result = func(*args, **kwargs)
            with self:
                return self.complex_numbers.call(func, bound, result)
        if not func._can_decompose():
            self._note_unsupported(func)
            self.recording.check_supported()
        with self:
            return func.decompose(*args, **kwargs)

    def _value_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        with without_modes():
            return self._known.value(tensor)

    def _reshaped_in_place(
        self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        """Record a change of a tensor's own shape as a view of what it was until now."""
        tensor: torch.Tensor = args[0]
        with torch.enable_grad():
            before = torch.ops.aten.alias(tensor)
        self.recording.replace(tensor, before)
        self._known.replace(tensor, before)
        self._constants = {k: v for k, v in self._constants.items() if v[1] is not tensor}
        func(*args, **kwargs)
        packet = getattr(torch.ops.aten, func._schema.name.partition("::")[2][:-1])
        # Only transpose has another name for the same arguments.
        out_of_place = getattr(packet, func._overloadname, None) or packet.int
        self._note(out_of_place, (before, *args[1:]), kwargs, [tensor], before.requires_grad)
        return tensor

    def _with_constants(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value if value.device.type == "meta" else self.constant_for(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._with_constants(item) for item in value)
        if isinstance(value, dict):
            return {key: self._with_constants(item) for key, item in value.items()}
        return value

    def _note(
        self,
        func: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: list[torch.Tensor],
        from_grad: bool,
    ) -> None:
        location = self._user_location()
        schema = func._schema
        given = list(tensors_in((args, kwargs)))
        bound = _bound(schema, args, kwargs)
        names = tuple(argument.name for argument in schema.arguments if argument.is_write)
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        written = [tensor for one in names for tensor in tensors_in(bound[one])]
        if outputs and not any(tensor.numel() for tensor in (*outputs, *written)):
            # Caches and parts of heads without elements are made to be concatenated with others.
            return
        if schema.name != "aten::cat":
            check_not_empty(given)
        self.complex_numbers.check_views(given, written, location)
        self._known.note((func, args, kwargs), outputs, written, is_random)
        placement = self._placement_of(func, args, outputs, location)
        if not self._lowers(func._schema.name):
            self._note_unsupported(func)
        self.recording.nodes.append(
            Node(
                name=schema.name,
                overload=schema.overload_name or "default",
                arguments=bound,
                written=names,
                outputs=outputs,
                requires_grad=[tensor.requires_grad for tensor in outputs],
                from_grad=from_grad,
                scope=self.state.scope,
                placement=placement,
                location=location,
                grad_enabled=torch.is_grad_enabled(),
                block=self.state.block,
            )
        )

    def _placement_of(
        self, func: Operator, args: tuple[Any, ...], outputs: list[torch.Tensor], location: str
    ) -> Placement:
        """Where a call runs; a mark, which has no results, needs no block."""
        placement = self.state.placement
        if func.namespace == "poptorch":
            placement = self.state.mark(func._opname, args)
            if not outputs:
                return placement
        if placement != NO_BLOCK:
            return placement
        if func.namespace == "poptorch" and func._opname in _HINTS:
            maker = self.recording.maker_of(args[0])
            return Placement() if maker is None else maker.placement
        raise createPoptorchError(
            f"No active Block, all the ops must belong to a Block; {full_name(func)} at "
            f"{location} does not. Begin a block before it"
        )

    def _note_unsupported(self, func: Operator) -> None:
        scope = f"in {self.state.scope}, " if self.state.scope else ""
        where = f"{scope}at {self._user_location()}"
        self.recording.unsupported.setdefault(full_name(func), where)

    def _user_location(self) -> str:
        """The innermost line outside of the excluded files."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(_PACKAGE) and not any(part in file for part in self._excludes):
                return f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return "unknown location"


def _with_own_memory(func: Operator, given: list[torch.Tensor], result: Any) -> Any:
    """The result, with copies in place of views of what only a rule for its shape has made."""
    if not isinstance(result, torch.Tensor) or not result._is_view():
        return result
    declared = any(returned.alias_info is not None for returned in func._schema.returns)
    shares = memory_of(result) in map(memory_of, given)
    return result if declared or shares else result.clone()


def _with_gradient(func: Operator, given: list[torch.Tensor], result: Any) -> Any:
    """A result that depends on what is given: torch's primitives forget that theirs do."""
    if func.namespace != "prims" or not torch.is_grad_enabled():
        return result
    sources = [tensor for tensor in given if tensor.requires_grad]
    is_made = isinstance(result, torch.Tensor) and not any(result is tensor for tensor in given)
    if not sources or not is_made or not result.is_floating_point() or result.requires_grad:
        return result
    with without_modes():
        # Meta tensors have no values that this could change.
        sums = [tensor.sum().to(result.dtype).expand(result.shape) for tensor in sources]
        return torch.stack([result, *sums])[0].clone()


def _short_name(func: Operator) -> str:
    """Such as `add`."""
    return str(func._schema.name).partition("::")[2]


def _bound(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, with the defaults of the schema."""
    arguments: dict[str, Any] = {}
    for index, argument in enumerate(schema.arguments):
        if index < len(args):
            arguments[argument.name] = args[index]
        elif argument.name in kwargs:
            arguments[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            arguments[argument.name] = argument.default_value
    return arguments


def memory_of(tensor: torch.Tensor) -> int:
    """Identify the memory of a tensor.

    Args:
        tensor: A tensor, with or without data.

    Returns:
        A number that tensors have in common when they share memory.
    """
    return tensor.untyped_storage()._cdata
