"""Writes docs/coverage.md: what of popxl and poptorch there is, and which test shows it.

The items are in docs/coverage/*.toml. Every item is looked up in the installed packages, its
parameters and its kinds of ops are compared, and a test that uses it is searched for. `--check`
writes nothing and fails if an item that is claimed to be done is not, or if the page differs.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
LISTS_FOLDER = ROOT / "docs" / "coverage"
POPXL_TESTS = ("tests/python/popxl", "tests/python/popxl_addons", "tests/programs")
# The lists with their titles and the folders of their tests.
LISTS = {
    "popxl_ops": ("Ops", POPXL_TESTS),
    "popxl_core": ("Core", POPXL_TESTS),
    "popxl_addons": ("Addons", POPXL_TESTS),
    "poptorch": ("PopTorch", ("tests/python/poptorch",)),
}
FIELDS = {"name", "tier", "section", "args", "ops", "grad", "test", "missing", "rule"}
# What the namespaces of op functions are called in tests.
NAMESPACES = {"ops", "var_updates", "collectives", "popxl", "popart", "popdist"}
# And modules of popxl_addons.
NAMESPACES |= {"addons", "munge", "utils", "fp8_utils", "performance_utils", "task_session"}

HEADER = """# Coverage of popxl and poptorch

Written by `python scripts/coverage.py` from `docs/coverage/*.toml`, the installed packages, the
registry of op kinds and the tests; `./dev lint` checks that it is up to date. Tier A is in everyday
use, B is the rest of the public interface, C has an equivalent or raises an error that says so.
"Done" means: it is there, with these parameters, these kinds of ops and differentiable inputs, and
a test uses it. Of a rule, which is no object, it means that the test is there.
"""


@dataclass(frozen=True)
class Item:
    """One line of a list; popxl_ops.toml explains the fields."""

    name: str
    tier: str
    section: str
    args: str | None = None
    ops: tuple[str, ...] = ()
    grad: tuple[int, ...] | None = None
    test: str | None = None
    missing: str | None = None
    rule: bool = False

    @property
    def short_name(self) -> str:
        """The last part of the name."""
        return self.name.replace(":", ".").rsplit(".", 1)[-1]

    @property
    def shown_name(self) -> str:
        return self.name if self.rule else self.name.replace(":", ".")


def read_items(path: Path) -> list[Item]:
    """The items of one list; SystemExit for unknown fields and sections and repeated names."""
    items = []
    content = tomllib.loads(path.read_text())
    for given in content["items"]:
        unknown = set(given) - FIELDS
        if unknown:
            raise SystemExit(f"{path.name}: {given['name']}: unknown fields {sorted(unknown)}")
        if given["section"] not in content["sections"]:
            raise SystemExit(f"{path.name}: {given['name']}: no section {given['section']!r}")
        lists = {key: tuple(given[key]) for key in ("ops", "grad") if key in given}
        section = content["sections"][given["section"]]
        items.append(Item(**{**given, **lists, "section": section}))
    repeated = [name for name, n in Counter(item.name for item in items).items() if n > 1]
    if repeated:
        raise SystemExit(f"{path.name}: listed more than once: {repeated}")
    return items


# --- what there is -------------------------------------------------------------------------------


def find_module(name: str) -> ModuleType:
    """The module of popxl, else the package, of that name."""
    try:
        return importlib.import_module(f"popxl.{name}")
    except ModuleNotFoundError:
        return importlib.import_module(name)


def find_object(name: str) -> tuple[Any, Any]:
    """What an item names is found in, and itself; AttributeError or ImportError if none is."""
    module, _, path = name.rpartition(":")
    owner: Any = None
    found: Any = find_module(module) if module else importlib.import_module("popxl")
    for part in path.split("."):
        owner, found = found, member_of(found, part)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return owner, found


def member_of(owner: Any, name: str) -> Any:
    """A member, or None for what a class only gives its instances."""
    if inspect.isclass(owner) and not hasattr(owner, name):
        annotated = any(name in vars(base).get("__annotations__", {}) for base in owner.__mro__)
        if annotated or re.search(rf"self\.{name}(: .*)? = ", source_of(owner)):
            return None
    return inspect.getattr_static(owner, name)


def source_of(owner: Any) -> str:
    try:
        return inspect.getsource(owner)
    except (OSError, TypeError):
        return ""


def parameters_of(args: str) -> list[tuple[str, Any]]:
    """(name with its stars, default) of a parameter list in Python's syntax."""
    space: dict[str, Any] = {"inf": float("inf"), "popxl": importlib.import_module("popxl")}
    if "poptorch." in args:
        space["poptorch"] = importlib.import_module("poptorch")
    exec(f"def wanted({args}): pass", space)
    return parameters(space["wanted"])


def parameters(function: Any) -> list[tuple[str, Any]]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (stars.get(p.kind, "") + p.name, p.default)
        for p in inspect.signature(function).parameters.values()
    ]


def shown_parameters(given: list[tuple[str, Any]]) -> str:
    texts = [
        name if default is inspect.Parameter.empty else f"{name}={default!r}"
        for name, default in given
    ]
    return "(" + ", ".join(texts) + ")"


def differences(item: Item, kinds: dict[str, Any]) -> list[str]:
    """How the package differs from what the item says."""
    try:
        _, found = find_object(item.name)
    except (AttributeError, ImportError):
        return ["does not exist"]
    result = []
    if item.args is not None:
        wanted, given = parameters_of(item.args), parameters(found)
        if wanted != given:
            result.append(
                f"wanted parameters {shown_parameters(wanted)}; found {shown_parameters(given)}"
            )
    absent = [op for op in item.ops if op not in kinds]
    if absent:
        result.append(f"no kind of op is called {', '.join(absent)}")
    elif item.grad is not None:
        differentiable = tuple(kinds[item.ops[-1]].differentiable_inputs)
        if differentiable != item.grad:
            result.append(f"wanted differentiable inputs {item.grad}; found {differentiable}")
    return result


# --- the tests -----------------------------------------------------------------------------------


@dataclass
class Uses:
    """The names that one piece of a test file mentions."""

    namespaced: set[str] = field(default_factory=set)  # ops.NAME, or NAME alone
    attributes: set[str] = field(default_factory=set)  # anything.NAME
    texts: set[str] = field(default_factory=set)  # "NAME"
    names: set[str] = field(default_factory=set)

    def add(self, other: Uses) -> None:
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            mine |= its


def uses_of(node: ast.AST) -> Uses:
    uses = Uses()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            uses.attributes.add(part.attr)
            owner = part.value
            if isinstance(owner, ast.Attribute):
                owner = ast.Name(owner.attr)
            if isinstance(owner, ast.Name) and owner.id in NAMESPACES:
                uses.namespaced.add(part.attr)
        elif isinstance(part, ast.Name):
            uses.names.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            uses.texts.add(part.value)
    return uses


class TestFile:
    """The tests of a file, and what they use, by way of the file's functions and constants too."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self._pieces: dict[str, Uses] = {}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self._pieces[node.name] = uses_of(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                        self._pieces[name] = uses_of(node.value)

    @cached_property
    def tests(self) -> dict[str, Uses]:
        return {name: self._reached(name) for name in self._pieces if name.startswith("test")}

    def _reached(self, name: str) -> Uses:
        total, waiting, seen = Uses(), [name], {name}
        while waiting:
            piece = self._pieces[waiting.pop()]
            total.add(piece)
            new = {n for n in piece.names if n in self._pieces} - seen
            seen |= new
            waiting += sorted(new)
        return total


class Tests:
    """All tests that may show an item."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        paths = [p for folder in folders for p in (ROOT / folder).rglob("test_*.py")]
        self._files = [TestFile(path) for path in sorted(paths)]
        self._known = {f"{f.path}::{name}" for f in self._files for name in f.tests}

    def find(self, item: Item) -> str | None:
        """`file::test`: the named one, else the one whose own name fits best."""
        if item.test is not None:
            return item.test if item.test in self._known else None
        is_member = belongs_to_class(item)
        found = [
            (item.short_name.strip("_") not in test, f"{file.path}::{test}")
            for file in self._files
            for test, uses in file.tests.items()
            if self._uses(uses, item, is_member, "/ops/" in file.path)
        ]
        return min(found)[1] if found else None

    @staticmethod
    def _uses(uses: Uses, item: Item, is_member: bool, is_op_test: bool) -> bool:
        name = item.short_name
        if is_member:
            return name in uses.attributes
        if name in uses.namespaced or name in uses.names:
            return True
        # Parametrised tests name ops as text; in-place forms are the text and an underscore.
        is_op = item.name.startswith("ops.")
        return is_op and is_op_test and bool({name, name.rstrip("_")} & uses.texts)


def belongs_to_class(item: Item) -> bool:
    try:
        return inspect.isclass(find_object(item.name)[0])
    except (AttributeError, ImportError):
        return False


# --- the page ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """An item as it was found."""

    item: Item
    problems: tuple[str, ...]
    test: str | None

    @property
    def status(self) -> str:
        if self.problems:
            known = [self.item.missing] if self.item.missing else []
            return "missing: " + "; ".join([*self.problems, *known])
        return f"partial: {self.item.missing}" if self.item.missing else "done"


def look_up(item: Item, kinds: dict[str, Any], tests: Tests) -> Result:
    problems = [] if item.rule else differences(item, kinds)
    test = tests.find(item)
    if test is None:
        problems.append(
            f"there is no test {item.test}" if item.test else "no test uses it (or give `test`)"
        )
    return Result(item, tuple(problems), test)


def summary(results: dict[str, list[Result]]) -> str:
    lines = ["| list | tier | items | done | partial | missing |", "| --- " * 6 + "|"]
    for title, found in results.items():
        for tier in sorted({r.item.tier for r in found}):
            states = Counter(r.status.split(":")[0] for r in found if r.item.tier == tier)
            counts = [states.total(), *(states[s] for s in ("done", "partial", "missing"))]
            lines.append(f"| {title} | {tier} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def table(results: list[Result]) -> str:
    lines = ["| about | item | tier | status | test |", "| --- " * 5 + "|"]
    for r in results:
        test = r.test.removeprefix("tests/") if r.test else ""
        shown = r.item.shown_name.replace("|", "\\|")
        item = shown.replace("*", "\\*").replace("<", "&lt;") if r.item.rule else f"`{shown}`"
        status = r.status.replace("|", "\\|")
        lines.append(f"| {r.item.section} | {item} | {r.item.tier} | {status} | {test} |")
    return "\n".join(lines)


def kinds_table(kinds: dict[str, Any], results: list[Result]) -> str:
    """Every kind of op: the form of its computation, its gradient, who makes it."""
    makers: dict[str, list[str]] = {}
    for r in results:
        for op in r.item.ops:
            makers.setdefault(op, []).append(r.item.short_name)
    lines = ["| kind | form | differentiable inputs | made by |", "| --- " * 4 + "|"]
    for kind in kinds.values():
        form = "pointwise" if kind.is_pointwise else "view" if kind.is_view else ""
        inputs = ", ".join(map(str, kind.differentiable_inputs))
        made_by = ", ".join(f"`{name}`" for name in makers.get(kind.name, ()))
        lines.append(f"| {kind.name} | {form} | {inputs} | {made_by} |")
    return "\n".join(lines)


def page_of(results: dict[str, list[Result]], kinds: dict[str, Any]) -> str:
    parts = [HEADER, summary(results)]
    for title, found in results.items():
        parts += [f"## {title}", table(found)]
    note = (
        "Kinds that no function makes come from gradients and from the expansion of others. The "
        "numeric gradient sweep (`tests/cpp/gradient_sweep_test.cpp`) has every kind with "
        "differentiable inputs."
    )
    parts += ["## Kinds of ops", note, kinds_table(kinds, results["Ops"])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail instead of writing the page")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "python"))
    core = importlib.import_module("pando._core")
    kinds = {kind.name: kind for kind in core.op_kinds()}
    tests = {folders: Tests(folders) for _, folders in LISTS.values()}
    results = {
        title: [
            look_up(item, kinds, tests[folders])
            for item in read_items(LISTS_FOLDER / f"{name}.toml")
        ]
        for name, (title, folders) in LISTS.items()
    }
    broken = [
        f"{r.item.shown_name}: {problem}"
        for found in results.values()
        for r in found
        if r.item.missing is None and r.item.tier in "AB"
        for problem in r.problems
    ]
    for line in broken:
        print(f"coverage: {line}", file=sys.stderr)
    page = page_of(results, kinds)
    if not check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        print(f"coverage: {PAGE.name} differs; run: python scripts/coverage.py", file=sys.stderr)
        return 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
