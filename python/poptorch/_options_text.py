"""Options from text: the lines of a configuration file, and JSON.

A line is read as a call or an assignment of options, and nothing else of Python is executed.
"""

from __future__ import annotations

import ast
import enum
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from poptorch import enums
from poptorch._option_values import OptionValues
from poptorch._stages import Phase, Stage
from poptorch._strategies import (
    ExecutionStrategy,
    ParallelPhasedExecution,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
)
from poptorch._tensor_locations import TensorLocationSettings


class ConfigFileError(Exception):
    """A line of a configuration file that cannot be read."""


class _Refused(Exception):
    """Something that lines may not have; its text says what."""


class _Names:
    """A package with the names that lines may use.

    Args:
        package: Its name.
        names: What is in it, by name.
    """

    def __init__(self, package: str, names: Mapping[str, Any]) -> None:
        self.package = package
        self.names = names


_ENUMS = {name: getattr(enums, name) for name in enums.__all__}
_POPTORCH = _Names(
    "poptorch",
    {
        **_ENUMS,
        "enums": _Names("poptorch.enums", _ENUMS),
        "Stage": Stage,
        "Phase": Phase,
        "PipelinedExecution": PipelinedExecution,
        "ShardedExecution": ShardedExecution,
        "SerialPhasedExecution": SerialPhasedExecution,
        "ParallelPhasedExecution": ParallelPhasedExecution,
        "TensorLocationSettings": TensorLocationSettings,
    },
)
_TORCH = _Names(
    "torch", {name: one for name, one in vars(torch).items() if isinstance(one, torch.dtype)}
)
_OBJECTS = (OptionValues, ExecutionStrategy, Stage, Phase)
_PRIVATE_GROUPS = ("_Popart", "_popart")
_OPERATORS: dict[type | None, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


class _Line:
    """Reads one line.

    Args:
        options: What `options` is.
    """

    def __init__(self, options: OptionValues) -> None:
        self._names = {"options": options, "poptorch": _POPTORCH, "torch": _TORCH}

    def execute(self, text: str) -> None:
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Expr):
                self._value(statement.value)
            elif isinstance(statement, ast.Assign):
                value = self._value(statement.value)
                for target in statement.targets:
                    self._assign(target, value)
            else:
                raise _Refused("wanted a call of a setter of options")

    def _assign(self, target: ast.expr, value: Any) -> None:
        if not isinstance(target, ast.Attribute):
            raise _Refused("wanted an option on the left side")
        owner = self._value(target.value)
        if not isinstance(owner, OptionValues) or target.attr.startswith("_"):
            raise _Refused(f"'{target.attr}' cannot be set")
        setattr(owner, target.attr, value)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self._names:
                raise _Refused(f"'{node.id}' is not one of {', '.join(self._names)}")
            return self._names[node.id]
        if isinstance(node, ast.Attribute):
            return self._attribute(self._value(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            kinds = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
            return kinds[type(node)](self._value(one) for one in node.elts)
        if isinstance(node, ast.Dict) and all(node.keys):
            keys = [self._value(key) for key in node.keys if key is not None]
            return dict(zip(keys, (self._value(one) for one in node.values), strict=True))
        return self._arithmetic(node)

    def _call(self, node: ast.Call) -> Any:
        function = self._value(node.func)
        if isinstance(function, _Names) or not callable(function):
            raise _Refused(f"'{ast.unparse(node.func)}' cannot be called")
        if any(isinstance(one, ast.Starred) for one in node.args):
            raise _Refused("arguments with * are not read")
        given = {word.arg: self._value(word.value) for word in node.keywords if word.arg}
        if len(given) != len(node.keywords):
            raise _Refused("arguments with ** are not read")
        return function(*(self._value(one) for one in node.args), **given)

    def _arithmetic(self, node: ast.expr) -> Any:
        function = _OPERATORS.get(type(getattr(node, "op", None)))
        if isinstance(node, ast.UnaryOp) and function:
            operands = [self._value(node.operand)]
        elif isinstance(node, ast.BinOp) and function:
            operands = [self._value(node.left), self._value(node.right)]
        else:
            raise _Refused(f"'{ast.unparse(node)}' is not read in this file")
        if not all(isinstance(one, (int, float)) for one in operands):
            raise _Refused(f"'{ast.unparse(node)}' is no arithmetic of numbers")
        return function(*operands)

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, _Names):
            if name not in owner.names:
                raise _Refused(f"'{owner.package}.{name}' is not read in this file")
            return owner.names[name]
        is_enum = isinstance(owner, type) and issubclass(owner, enum.Enum)
        is_open = not name.startswith("_") or name in _PRIVATE_GROUPS
        if (is_enum or isinstance(owner, _OBJECTS)) and is_open:
            return getattr(owner, name)
        raise _Refused(f"'{name}' of {owner!r} is not read in this file")


def read_file(options: OptionValues, path: str) -> None:
    """Follow the lines of a configuration file.

    Args:
        options: The options.
        path: The file. Each line is a call or an assignment as a program would write it, without
            `options.` before it; empty lines and those that begin with # are left out.

    Raises:
        ConfigFileError: A line cannot be read.
        OSError: The file cannot be.
    """
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        text = f"options.{line}"
        place = f"at line {number} of {path}"
        try:
            _Line(options).execute(text)
        except SyntaxError as error:
            raise ConfigFileError(f"SyntaxError {place}: {error.msg}\n> {text}") from error
        except _Refused as error:
            raise ConfigFileError(f"Error {place}: {error}\n> {text}") from error


_ENUM_MEMBER = re.compile(r"(\w+)\.(\w+)")


def _resolved(value: Any) -> Any:
    """Names of members of enums are the members."""
    if isinstance(value, list):
        return [_resolved(one) for one in value]
    if isinstance(value, dict):
        return {key: _resolved(one) for key, one in value.items()}
    found = _ENUM_MEMBER.fullmatch(value) if isinstance(value, str) else None
    members = _ENUMS[found[1]].__members__ if found and found[1] in _ENUMS else {}
    return members.get(found[2], value) if found else value


def _setter(options: OptionValues, name: str) -> Callable[..., Any]:
    owner: Any = options
    for part in name.split("."):
        is_open = not part.startswith("_") or part in _PRIVATE_GROUPS
        owner = getattr(owner, part, None) if is_open else None
        if owner is None:
            break
    if isinstance(owner, OptionValues) or not callable(owner):
        raise ValueError(f"there is no setter of options '{name}'")
    found: Callable[..., Any] = owner
    return found


def read_json(options: OptionValues, text: str) -> None:
    """Follow a JSON object of options.

    Args:
        options: The options.
        text: The object: the names of setters, as `Training.gradientAccumulation`, and their
            argument or list of arguments, in which `OutputMode.All` is that member of the enum.

    Raises:
        ValueError: It is no JSON object, or there is no such setter.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"options as JSON: wanted an object; given {text!r}")
    for name, value in values.items():
        arguments = value if isinstance(value, list) else [value]
        _setter(options, name)(*_resolved(arguments))
