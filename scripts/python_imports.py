"""Reads which module of the project imports which, and finds the circles."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

# The module that the build makes, which imports none of the others.
BUILT = "pando._core"


@dataclass(frozen=True)
class Import:
    """One import of a module of the project.

    Attributes:
        source: The module that imports.
        target: The module or package that is imported.
        file: The file of `source`.
        line: The line of the import.
        at_run_time: Whether it happens when programs run; others are for type checkers alone.
    """

    source: str
    target: str
    file: Path
    line: int
    at_run_time: bool

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def module_name(path: Path) -> str:
    """Name the module of a file, whose path begins with the folder of the packages."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in {
        part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)
    }


def _import_nodes(node: ast.AST, at_run_time: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Every import statement and call of import_module, also in functions."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
        yield node, at_run_time
    if _is_for_type_checkers(node):
        assert isinstance(node, ast.If)
        negated = isinstance(node.test, ast.UnaryOp)
        for branch, is_run in ((node.body, negated), (node.orelse, not negated)):
            for child in branch:
                yield from _import_nodes(child, at_run_time and is_run)
        return
    for child in ast.iter_child_nodes(node):
        yield from _import_nodes(child, at_run_time)


def _imported_by_call(call: ast.Call) -> str | None:
    """What `importlib.import_module("name")` imports."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name != "import_module" or not call.args or not isinstance(call.args[0], ast.Constant):
        return None
    return str(call.args[0].value)


def _base_of(node: ast.ImportFrom, path: Path) -> str:
    """The package or module after `from`, also where it is relative."""
    if node.level == 0:
        return node.module or ""
    around = path.parts[1 : len(path.parts) - node.level]
    return ".".join([*around, *([node.module] if node.module else [])])


def _targets(node: ast.AST, path: Path, modules: set[str]) -> Iterator[str]:
    """What a statement imports: where a name of a module is taken, that module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base_of(node, path)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in modules else base
    elif isinstance(node, ast.Call):
        yield from filter(None, [_imported_by_call(node)])


def read_imports(root: Path, files: list[Path]) -> list[Import]:
    """List the imports between modules of the project.

    Args:
        root: The folder that the paths are relative to.
        files: The Python files, as paths whose first part is the folder of the packages.

    Returns:
        The imports, by file and line.
    """
    modules = {module_name(path) for path in files} | {BUILT}
    found = []
    for path in files:
        for node, at_run_time in _import_nodes(ast.parse((root / path).read_text())):
            line = getattr(node, "lineno", 0)
            for target in dict.fromkeys(_targets(node, path, modules)):
                if target in modules:
                    found.append(Import(module_name(path), target, path, line, at_run_time))
    return found


def _loaded_by(one: Import) -> Iterator[str]:
    """What the import runs: the target, and each package around it that is not running already."""
    parts = one.target.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        if name == one.target or not f"{one.source}.".startswith(f"{name}."):
            yield name


def find_circles(
    imports: list[Import], named_from_below: Collection[str] = ()
) -> list[list[Import]]:
    """Find modules that import each other when programs run, also inside functions, or for types.

    Args:
        imports: The imports.
        named_from_below: Modules that others may import for type checkers although these modules
            import them.

    Returns:
        Circles that have no import in common. There is none if and only if the list is empty.
    """
    edges: dict[str, dict[str, Import]] = {}
    for one in imports:
        if not one.at_run_time and one.target in named_from_below:
            continue
        for target in _loaded_by(one) if one.at_run_time else [one.target]:
            edges.setdefault(one.source, {}).setdefault(target, one)
    circles: list[list[Import]] = []
    for start in sorted(edges):
        while circle := _shortest_way_back(start, edges):
            circles.append([edges[source].pop(target) for source, target in circle])
    return circles


def _shortest_way_back(
    start: str, edges: dict[str, dict[str, Import]]
) -> list[tuple[str, str]] | None:
    ways: dict[str, list[tuple[str, str]]] = {start: []}
    waiting = [start]
    for module in waiting:
        for target in edges.get(module, {}):
            way = [*ways[module], (module, target)]
            if target == start:
                return way
            if target not in ways:
                ways[target] = way
                waiting.append(target)
    return None
