"""Checks that files stay under 500 lines and functions under 61.

A longer one needs a line `FILE: reason` or `FILE FUNCTION: reason` in size_exceptions.txt; a line
that is no longer needed is a fault too.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from source_files import ROOT, source_files

FILE_LINES = 500
FUNCTION_LINES = 60
EXCEPTIONS = Path(__file__).parent / "size_exceptions.txt"


@dataclass(frozen=True)
class Size:
    """`name` is the path, followed by the function's name when it is about one."""

    name: str
    where: str
    lines: int
    limit: int


# Comments, literals and preprocessor lines hold braces that mean nothing.
NOISE = re.compile(
    r'R"(?P<d>[^()\\ ]{0,16})\(.*?\)(?P=d)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
FUNCTION_NAME = re.compile(r"(operator\s*\S+?|[~\w:]+)\s*\(")
TYPE_HEADER = re.compile(r"\b(namespace|class|struct|union|enum)\b[^()]*$")


def blank(match: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else " " for character in match[0])


def cpp_functions(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, last line) of every function body outside another function's body."""
    found = []
    text = NOISE.sub(blank, text)
    open_braces: list[tuple[str, int] | None] = []
    header_start = 0
    for at in (match.start() for match in re.finditer("[{};]", text)):
        inside_function = any(open_braces)
        if text[at] == "{":
            header = text[header_start:at]
            name = FUNCTION_NAME.search(header)
            opens_function = name and not TYPE_HEADER.search(header) and not inside_function
            start = header_start + len(header) - len(header.lstrip())
            open_braces.append((name[1], start) if name and opens_function else None)
        elif text[at] == "}" and open_braces:
            opened = open_braces.pop()
            if opened:
                first, last = (text.count("\n", 0, index) + 1 for index in (opened[1], at))
                found.append((opened[0], first, last))
        header_start = at + 1
    return found


def python_functions(text: str) -> list[tuple[str, int, int]]:
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def sizes(path: Path) -> list[Size]:
    text = (ROOT / path).read_text()
    functions = python_functions if path.suffix == ".py" else cpp_functions
    found = [Size(str(path), str(path), text.count("\n"), FILE_LINES)]
    for name, first, last in functions(text):
        found.append(Size(f"{path} {name}", f"{path}:{first}", last - first + 1, FUNCTION_LINES))
    return found


def read_exceptions() -> dict[str, str]:
    lines = [line.strip() for line in EXCEPTIONS.read_text().splitlines()]
    entries = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    for name, _, reason in entries:
        if not reason:
            raise SystemExit(f"{EXCEPTIONS.name}: '{name}' needs ': ' and a reason")
    return {name: reason for name, _, reason in entries}


def main() -> int:
    exceptions = read_exceptions()
    measured = [size for path in source_files("*.cpp", "*.hpp", "*.py") for size in sizes(path)]
    too_long = [size for size in measured if size.lines > size.limit]
    faults = [
        f"{size.where}: {size.name.split()[-1]} has {size.lines} lines, the limit is {size.limit}:"
        f" split it, or give the reason as '{size.name}: ...' in scripts/{EXCEPTIONS.name}"
        for size in too_long
        if size.name not in exceptions
    ]
    stale = exceptions.keys() - {size.name for size in too_long}
    faults += [f"scripts/{EXCEPTIONS.name}: '{name}' is not too long" for name in sorted(stale)]
    print("\n".join(faults) if faults else f"{len(measured)} files and functions within the limits")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
