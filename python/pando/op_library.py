"""Shared libraries of users' own ops."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pando import _core

_TYPE_NAMES = {
    _core.AttributeType.Flag: "bool",
    _core.AttributeType.Integer: "int",
    _core.AttributeType.Number: "float",
    _core.AttributeType.Text: "str",
    _core.AttributeType.DTypeName: "dtype",
    _core.AttributeType.IntList: "list[int]",
    _core.AttributeType.NumberList: "list[float]",
    _core.AttributeType.TextList: "list[str]",
}


class LibraryOp:
    """An op of a library that is loaded: what it takes, for people."""

    def __init__(self, core_op: _core.LibraryOp) -> None:
        """Called by `load_library`.

        Args:
            core_op: The op of the core.
        """
        self._core = core_op

    @property
    def name(self) -> str:
        """The kind of the op."""
        return self._core.name

    @property
    def help(self) -> str:
        """What the library says about it; may be empty."""
        return self._core.doc

    @property
    def attributes(self) -> dict[str, str]:
        """The types of the attributes by their names; optional ones end with `= ...`."""
        return {
            attribute.name: _TYPE_NAMES[attribute.type] + ("" if attribute.required else " = ...")
            for attribute in self._core.attributes
        }

    @property
    def has_gradient(self) -> bool:
        """Whether autodiff goes through it."""
        return self._core.has_gradient

    @property
    def in_place(self) -> bool:
        """Whether it writes its first inputs."""
        return self._core.num_in_place > 0

    def __repr__(self) -> str:
        least, most = self._core.min_inputs, self._core.max_inputs
        inputs = f"{least} or more" if most < 0 else f"{least} to {most}"
        inputs = f"{least}" if least == most else inputs
        notes = [f"{inputs} input{'' if inputs == '1' else 's'}"]
        notes += ["in place"] if self.in_place else []
        notes += [] if self.has_gradient or self.in_place else ["no gradient"]
        lines = [f"{self.name}({', '.join(f'{k}: {v}' for k, v in self.attributes.items())})"]
        lines[0] += f"  # {', '.join(notes)}"
        lines += [f"    {line}" for line in self.help.splitlines()]
        lines += [f"    {one.name}: {one.doc}" for one in self._core.attributes if one.doc]
        return "\n".join(lines)


class OpLibrary(Mapping[str, LibraryOp]):
    """A library that is loaded: its ops by name. It stays loaded until the process ends."""

    def __init__(self, core_library: _core.OpLibrary) -> None:
        """Called by `load_library`.

        Args:
            core_library: The library of the core.
        """
        self._core = core_library
        self._ops = {op.name: LibraryOp(op) for op in core_library.ops}

    @property
    def path(self) -> Path:
        """The file, without links."""
        return Path(self._core.path)

    @property
    def hash(self) -> str:
        """The hash of the file, which compiled programs that use the library are known by."""
        return self._core.hash

    @property
    def domain(self) -> tuple[str, int] | None:
        """The domain of all its ops and its version; None if it names none."""
        return (self._core.domain, self._core.domain_version) if self._core.domain else None

    def __getitem__(self, name: str) -> LibraryOp:
        return self._ops[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ops)

    def __len__(self) -> int:
        return len(self._ops)

    def __repr__(self) -> str:
        domain = f" of {self._core.domain} {self._core.domain_version}" if self.domain else ""
        ops = (repr(op) for op in self._ops.values())
        return "\n".join([f"OpLibrary {self.path}{domain}", *ops])


def load_library(path: str | os.PathLike[str]) -> OpLibrary:
    """Load a shared library of users' own ops, which are then as good as any other op.

    A library that was loaded before is given again. It cannot be unloaded.

    Args:
        path: The file, written against `pando_op.h`.

    Returns:
        The library, which lists its ops with their attributes.

    Raises:
        popart_exception: It is no such library, or its domain or an op of it breaks a rule, or an
            op has a name that is taken; nothing of it is known then.
    """
    return OpLibrary(_core.load_library(os.fspath(path)))


def get_include() -> str:
    """Find the folder of `pando_op.h`, for the include path of a compiler.

    Returns:
        The path of the folder.
    """
    return str(Path(__file__).resolve().parent / "include")
