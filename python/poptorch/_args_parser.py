"""Arguments of calls: binding to `forward`, comparison with the compiled call, results."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from poptorch._errors import Error
from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._structures import (
    ICustomArgParser,
    Mismatch,
    Node,
    describe,
    registerCustomArgParser,
)

__all__ = [
    "BoundArguments",
    "ICustomArgParser",
    "NamedTensor",
    "Signature",
    "Structure",
    "registerCustomArgParser",
    "validate",
]

_RECOMPILE = (
    "\nThis error occurred because the inputs passed at runtime don't match the inputs used to "
    "compile the model.\nTo recompile the model for the new inputs create a new inferenceModel / "
    "trainingModel wrapper or call destroy() on the curent one and try again."
)
_BACKWARD = (
    "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a "
    "trainingModel, the backwards pass is performed automatically when invoking the model. If "
    "you're using an inferenceModel, you should use a trainingModel instead."
)


class NamedTensor(NamedTuple):
    """A tensor among the arguments: `name` is its parameter with a path, such as x[0]."""

    name: str
    tensor: torch.Tensor


class Signature:
    """The parameters of a `forward`.

    Args:
        forward: The bound method, or another callable without a parameter for the module.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        parameters = inspect.signature(forward).parameters.values()
        named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.positional = [p.name for p in named]
        self.keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self._by_keyword = [p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._by_keyword += self.keyword_only
        self.var_positional = _only_name(parameters, inspect.Parameter.VAR_POSITIONAL)
        self.var_keyword = _only_name(parameters, inspect.Parameter.VAR_KEYWORD)
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundArguments:
        """Give each parameter its argument or its default.

        Args:
            args: The positional arguments of a call.
            kwargs: The keyword arguments of the call.

        Returns:
            The arguments; the call itself keeps its own containers and tensors.

        Raises:
            AssertionError: Too many arguments, an unknown one, or one that is given twice.
            Error: A parameter without default has no argument.
        """
        if kwargs or len(args) != len(self.positional) or self.keyword_only:
            return self._bind(args, kwargs)
        return BoundArguments(self, tuple(args), {}, {})

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundArguments:
        names = self.positional
        if len(args) > len(names) and self.var_positional is None:
            raise AssertionError(
                f"Too many arguments provided: expected {names} ({len(names)}) but got {len(args)}"
            )
        given = dict(zip(names, args, strict=False))
        others: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key not in self._by_keyword:
                if self.var_keyword is None:
                    raise AssertionError(
                        f"{key} is not a valid parameter.Allowed values are {self._by_keyword}"
                    )
                others[key] = value
            elif key in given:
                raise AssertionError(f"Parameter {key} was passed more than once")
            else:
                given[key] = value
        positional = [self._argument(name, given) for name in names]
        by_keyword = {name: self._argument(name, given) for name in self.keyword_only}
        return BoundArguments(self, (*positional, *args[len(names) :]), by_keyword, others)

    def names(self, positional_count: int) -> list[str]:
        """Give the names of the arguments of a call.

        Args:
            positional_count: How many are positional.

        Returns:
            A name for each of `BoundArguments.values`.
        """
        extra = range(positional_count - len(self.positional))
        names = [*self.positional, *(f"*{self.var_positional}[{i}]" for i in extra)]
        names += self.keyword_only
        if self.var_keyword is not None:
            names.append(f"**{self.var_keyword}")
        return names

    def _argument(self, name: str, given: Mapping[str, Any]) -> Any:
        if name in given:
            return given[name]
        if name not in self._defaults:
            raise createPoptorchError(f"Mandatory parameter {name} missing")
        return self._defaults[name]

    @staticmethod
    def note_dictionaries(bound: BoundArguments) -> None:
        """Warn of dictionaries among the arguments that a model is compiled for.

        Args:
            bound: The arguments.
        """
        if _holds_dictionary([*bound.args, *bound.kwargs.values()]):
            logger.warning(
                "Dictionaries as arguments have only partial support: later calls must give the "
                "same keys as the one that compiles the model."
            )


def _holds_dictionary(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_dictionary, value))
    return isinstance(value, Mapping)


def _only_name(parameters: Iterable[inspect.Parameter], kind: Any) -> str | None:
    return next((p.name for p in parameters if p.kind is kind), None)


class BoundArguments:
    """The arguments of one call, one for each parameter.

    Args:
        signature: The parameters.
        args: The positional arguments, those of `*args` behind the others.
        keyword_only: The arguments of parameters that are only given by keyword.
        others: The arguments of `**kwargs`.
    """

    def __init__(
        self,
        signature: Signature,
        args: tuple[Any, ...],
        keyword_only: dict[str, Any],
        others: dict[str, Any],
    ) -> None:
        self.signature = signature
        self.args = args
        self._keyword_only = keyword_only
        self._others = others
        self._nodes: list[Node] | None = None
        self._tensor_names: list[str] | None = None

    @property
    def kwargs(self) -> dict[str, Any]:
        """What the module is called with by keyword, beside `args`."""
        return {**self._keyword_only, **self._others}

    def values(self) -> list[Any]:
        """Give the arguments in the order of the parameters.

        Returns:
            Those of `args`, those given by keyword only, and the dictionary of `**kwargs`.
        """
        values = [*self.args, *self._keyword_only.values()]
        if self.signature.var_keyword is not None:
            values.append(self._others)
        return values

    def nodes(self) -> list[Node]:
        """Describe the arguments; this is done once.

        Returns:
            A node for each of `values`.
        """
        if self._nodes is None:
            names = self.signature.names(len(self.args))
            values = self.values()
            self._nodes = [describe(*pair) for pair in zip(names, values, strict=True)]
        return self._nodes

    def tensor_names(self) -> list[str]:
        """Name the tensors; this is done once.

        Returns:
            A name for each of `tensors()`.
        """
        if self._tensor_names is None:
            self._tensor_names = [name for node in self.nodes() for name in node.leaf_names()]
        return self._tensor_names

    def tensors(self) -> list[NamedTensor]:
        """Find the tensors.

        Returns:
            The tensors themselves, in the order of the parameters, depth first.
        """
        found: list[torch.Tensor] = []
        for node, value in zip(self.nodes(), self.values(), strict=True):
            node.collect(value, found)
        return [NamedTensor(*pair) for pair in zip(self.tensor_names(), found, strict=True)]

    def with_tensors(self, tensors: Iterable[torch.Tensor]) -> BoundArguments:
        """Make arguments of the same structure with other tensors.

        Args:
            tensors: One for each of `tensors()`, in that order; shapes and dtypes may differ.

        Returns:
            New arguments, with containers of their own.

        Raises:
            ValueError: There are more or fewer tensors.
        """
        given = list(tensors)
        wanted = len(self.tensor_names())
        if len(given) != wanted:
            raise ValueError(f"with_tensors: wanted {wanted} tensors; given {len(given)}")
        source = iter(given)
        built = [node.build(source) for node in self.nodes()]
        others = built.pop() if self.signature.var_keyword is not None else {}
        count = len(self.args)
        keyword_only = dict(zip(self._keyword_only, built[count:], strict=True))
        return BoundArguments(self.signature, tuple(built[:count]), keyword_only, others)

    def without_data(self) -> BoundArguments:
        """Make arguments with which later calls can be compared, and which keep no batch alive.

        Returns:
            Arguments of the same structure, whose tensors are zeros with one element in memory.
        """
        return self.with_tensors(
            torch.zeros((), dtype=tensor.dtype).expand(tensor.shape) for _, tensor in self.tensors()
        )


def validate(compiled: BoundArguments, given: BoundArguments) -> list[torch.Tensor]:
    """Compare the arguments of a call with those that the model was compiled for.

    Args:
        compiled: The arguments of the call that compiled the model.
        given: The arguments of a later call.

    Returns:
        The tensors of `given`, themselves, in the order of `compiled.tensors()`.

    Raises:
        Error: Structure, dtypes, shapes or other values differ.
    """
    if len(given.args) != len(compiled.args):
        raise _validation_error(
            f"Number of positional arguments mismatch: expected {len(compiled.args)} arguments "
            f"but got {len(given.args)}"
        )
    tensors: list[torch.Tensor] = []
    try:
        for node, value in zip(compiled.nodes(), given.values(), strict=True):
            node.collect(value, tensors)
    except Mismatch as mismatch:
        raise _validation_error(str(mismatch)) from None
    return tensors


def _validation_error(message: str) -> Error:
    return createPoptorchError(message + _RECOMPILE)


def _raise_for_backward(*_: Any, **__: Any) -> NoReturn:
    raise createPoptorchError(_BACKWARD)


def _without_state() -> None:
    """What a result is pickled with beside its values: nothing, so that any program can load it."""


def _is_traced(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "cpu"


class Structure:
    """What `forward` returned in the trace, to be filled with the results of runs.

    Args:
        output: Traced tensors, containers of them as for arguments, and other values. Other values
            are the same in all results; those of tensors on the CPU are copied for each.
        is_traced: Which tensors are replaced by results; None: those that are not on the CPU.
    """

    def __init__(
        self, output: Any, is_traced: Callable[[torch.Tensor], bool] | None = None
    ) -> None:
        self._is_traced = is_traced or _is_traced
        self.has_host_tensors = False
        self._node = describe("output", output, self._replaced)
        self._tensors: list[torch.Tensor] = []
        self._node.collect(output, self._tensors)

    def _replaced(self, tensor: torch.Tensor) -> bool:
        traced = self._is_traced(tensor)
        if not traced:
            self.has_host_tensors = True
            warnings.warn(
                f"Output expected to be on the IPU but is on {tensor.device.type}", stacklevel=4
            )
        return traced

    def tensors(self) -> list[torch.Tensor]:
        """Give the traced tensors.

        Returns:
            The tensors themselves, depth first; one that was returned twice is there twice.
        """
        return list(self._tensors)

    def rebuild(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Make what a call returns.

        Args:
            tensors: A result for each of `tensors()`, of any shape. They are returned themselves;
                their method `backward` raises from now on.

        Returns:
            A new object like the one that `forward` returned.

        Raises:
            ValueError: There are more or fewer tensors.
        """
        if len(tensors) != len(self._tensors):
            raise ValueError(f"rebuild: wanted {len(self._tensors)} tensors; given {len(tensors)}")
        for tensor in tensors:
            tensor.backward = _raise_for_backward  # type: ignore[method-assign]
            tensor.__getstate__ = _without_state  # type: ignore[attr-defined]
        return self._node.build(iter(tensors))
