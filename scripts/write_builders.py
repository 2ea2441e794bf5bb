"""Writes pando/ops/builders.hpp and a header and a source for every family of ops in the folder
beside it: a typed function for every kind of op of the registry.

`--check` writes nothing and fails if a file differs. The registry is that of the built packages.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from pando import _core
from popxl.context import _snake_case

FOLDER = Path(__file__).resolve().parent.parent / "pando" / "ops" / "builders"
WIDTH = 100
TYPES = {
    _core.AttributeType.Flag: "bool",
    _core.AttributeType.Integer: "std::int64_t",
    _core.AttributeType.Number: "double",
    _core.AttributeType.Text: "std::string",
    _core.AttributeType.DTypeName: "DType",
    _core.AttributeType.IntList: "Ints",
    _core.AttributeType.NumberList: "Floats",
    _core.AttributeType.TextList: "Texts",
}
# Kinds whose names are words of the language have those of popxl.
NAMES = {
    "And": "logical_and",
    "If": "conditional",
    "Not": "logical_not",
    "Or": "logical_or",
    "While": "while_loop",
}
NOTE = "Written by scripts/write_builders.py from the registry: run ./dev generate."

ALL_HEADER = f"""// Typed builders: one for every kind of op. Optional inputs follow the attributes.
// {NOTE}
// clang-format off
#pragma once

"""

HEADER = f"""// {NOTE}
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {{
"""

SOURCE = f"""// {NOTE}
// clang-format off
#include "pando/ops/builders/FAMILY.hpp"

#include <utility>

namespace pando::ops {{
"""
END = "\n}  // namespace pando::ops\n"


@dataclass(frozen=True)
class Parameter:
    """`default` is the text after the type and the name, with its sign."""

    type: str
    name: str
    default: str = ""

    @property
    def definition(self) -> str:
        return f"{self.type} {self.name}"


def function_name(kind: str) -> str:
    return NAMES.get(kind) or _snake_case(kind)


def wrapped(start: str, parts: list[str], end: str) -> str:
    """A list in brackets, continued below its first entry."""
    lines = [start]
    for i, part in enumerate(parts):
        text = part + ("," if i + 1 < len(parts) else end)
        if i > 0 and len(lines[-1]) + 1 + len(text) <= WIDTH:
            lines[-1] += f" {text}"
        elif i == 0:
            lines[-1] += text
        else:
            lines.append(" " * len(start) + text)
    return "\n".join(lines)


def attributes_struct(kind: _core.OpKind) -> str:
    """Required attributes come first; empty for kinds without attributes."""
    if not kind.attributes:
        return ""
    members = []
    for (name, required), given in zip(kind.attributes, kind.attribute_types, strict=True):
        holder = "Required" if required else "std::optional"
        default = "" if required else " = std::nullopt"
        members.append((not required, f"  {holder}<{TYPES[given]}> {name}{default};"))
    body = "\n".join(text for _, text in sorted(members, key=lambda member: member[0]))
    return f"struct {kind.name}Attributes {{\n{body}\n}};\n"


def input_names(kind: _core.OpKind) -> list[str]:
    """Empty where there may be any number."""
    return [f"input{i}" for i in range(max(kind.max_inputs, 0))]


def parameters(kind: _core.OpKind) -> list[Parameter]:
    """What must be given comes first: optional inputs stand behind the attributes."""
    inputs = [Parameter("Tensor*", name) for name in input_names(kind)]
    if kind.max_inputs < 0:
        inputs = [Parameter("const std::vector<Tensor*>&", "inputs")]
    found = [Parameter("OpBuilder&", "builder")]
    found += [Parameter("Graph&", f"graph{i}") for i in range(kind.num_called_graphs)]
    found += inputs if kind.max_inputs < 0 else inputs[: kind.min_inputs]
    if kind.attributes:
        must_give = any(required for _, required in kind.attributes)
        default = "" if must_give else " = {}"
        found.append(Parameter(f"const {kind.name}Attributes&", "attributes", default))
    if kind.max_inputs >= 0:
        found += [replace(one, default=" = nullptr") for one in inputs[kind.min_inputs :]]
    return [*found, Parameter("std::string_view", "name", " = {}")]


def declaration(kind: _core.OpKind) -> str:
    doc = textwrap.wrap(kind.doc, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    lines = [f"/// {line}" for line in doc]
    given = [one.definition + one.default for one in parameters(kind)]
    lines.append(wrapped(f"BuiltOp {function_name(kind.name)}(", given, ");"))
    return attributes_struct(kind) + "\n".join(lines) + "\n"


def definition(kind: _core.OpKind) -> str:
    given = [one.definition for one in parameters(kind)]
    lines = [wrapped(f"BuiltOp {function_name(kind.name)}(", given, ") {")]
    if kind.attributes:
        lines.append("  Attributes given;")
        lines += [
            f'  set_attribute(given, "{name}", attributes.{name});' for name, _ in kind.attributes
        ]
    inputs = "inputs" if kind.max_inputs < 0 else "{" + ", ".join(input_names(kind)) + "}"
    passed = ["builder", f'"{kind.name}"', inputs]
    passed += ["std::move(given)" if kind.attributes else "{}", "name"]
    if kind.num_called_graphs > 0:
        graphs = ", ".join(f"&graph{i}" for i in range(kind.num_called_graphs))
        passed.append(f"{{{graphs}}}")
    lines.append(wrapped("  return build_op(", passed, ");"))
    return "\n".join([*lines, "}", ""])


def family_files(family: str, kinds: list[_core.OpKind]) -> dict[Path, str]:
    start = SOURCE.replace("FAMILY", family)
    return {
        FOLDER / f"{family}.hpp": HEADER + "".join(f"\n{declaration(k)}" for k in kinds) + END,
        FOLDER / f"{family}.cpp": start + "".join(f"\n{definition(k)}" for k in kinds) + END,
    }


def written_files() -> dict[Path, str]:
    """SystemExit if two kinds get one name."""
    kinds = [kind for kind in _core.op_kinds() if kind.family]
    names = [function_name(kind.name) for kind in kinds]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"write_builders: several kinds are called {sorted(twice)}")
    families = sorted({kind.family for kind in kinds})
    includes = [f'#include "pando/ops/builders/{family}.hpp"\n' for family in families]
    files = {FOLDER.with_suffix(".hpp"): ALL_HEADER + "".join(includes)}
    for family in families:
        files |= family_files(family, [kind for kind in kinds if kind.family == family])
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    files = written_files()
    strays = set(FOLDER.glob("*.[ch]pp")) - set(files)
    failed = False
    if not check:
        FOLDER.mkdir(exist_ok=True)
    for path in strays:
        if not check:
            path.unlink()
        else:
            print(f"{path} is of no family of ops")
            failed = True
    for path, text in files.items():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} does not agree with the registry")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
