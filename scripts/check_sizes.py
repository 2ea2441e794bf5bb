"""Checks that files, functions and classes of `pando/` stay small: lines and methods.

A larger one needs a line in size_exceptions.txt, which says how they look. A line that is no longer
needed is a fault too, and so is a number of methods that its class no longer has: it only falls.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

from cpp_source import cpp_classes, cpp_functions
from source_files import ROOT, source_files

FILE_LINES = 500
FUNCTION_LINES = 60
CLASS_METHODS = 25
EXCEPTIONS = Path(__file__).parent / "size_exceptions.txt"


@dataclass(frozen=True)
class Size:
    """`name` is as in size_exceptions.txt."""

    name: str
    where: str
    size: int
    unit: str
    limit: int


def python_functions(text: str) -> list[tuple[str, int, int]]:
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def sizes(path: Path, text: str) -> list[Size]:
    functions = python_functions if path.suffix == ".py" else cpp_functions
    found = [Size(str(path), str(path), text.count("\n"), "lines", FILE_LINES)]
    for name, first, last in functions(text):
        length = last - first + 1
        found.append(Size(f"{path} {name}", f"{path}:{first}", length, "lines", FUNCTION_LINES))
    if path.suffix != ".py" and path.parts[0] == "pando":
        for name, first, methods in cpp_classes(text):
            where = f"{path}:{first}"
            found.append(Size(f"{path} class {name}", where, methods, "methods", CLASS_METHODS))
    return found


def read_exceptions(text: str) -> dict[str, int | None]:
    """The number of methods, or None for files and functions, by name."""
    found: dict[str, int | None] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        subject, _, reason = line.partition(": ")
        if not reason.strip():
            raise SystemExit(f"{EXCEPTIONS.name}: '{line.strip()}' needs ': ' and a reason")
        name, is_class, methods = subject.partition(" = ")
        found[name] = int(methods) if is_class else None
    return found


def fault(size: Size, exceptions: dict[str, int | None]) -> str | None:
    """What is wrong with something too large."""
    what = f"{size.name.split()[-1]} has {size.size} {size.unit}"
    entry = f"{size.name} = {size.size}" if size.unit == "methods" else size.name
    if size.name not in exceptions:
        return (
            f"{size.where}: {what}, the limit is {size.limit}: split it, or give the reason as"
            f" '{entry}: ...' in scripts/{EXCEPTIONS.name}"
        )
    allowed = exceptions[size.name]
    if entry == size.name or size.size == allowed:
        return None
    if allowed is None or size.size < allowed:
        return f"scripts/{EXCEPTIONS.name}: {what}: write '{entry}: ...'"
    return f"{size.where}: {what}, {allowed} are allowed in scripts/{EXCEPTIONS.name}: split it"


def faults(measured: list[Size], exceptions: dict[str, int | None]) -> list[str]:
    too_large = [size for size in measured if size.size > size.limit]
    found = [text for size in too_large if (text := fault(size, exceptions))]
    stale = sorted(exceptions.keys() - {size.name for size in too_large})
    return found + [f"scripts/{EXCEPTIONS.name}: '{name}' is not too large" for name in stale]


def main() -> int:
    measured: list[Size] = []
    for path in source_files("*.cpp", "*.hpp", "*.py"):
        measured += sizes(path, (ROOT / path).read_text())
    found = faults(measured, read_exceptions(EXCEPTIONS.read_text()))
    print(
        "\n".join(found)
        if found
        else f"{len(measured)} files, functions and classes within the limits"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
