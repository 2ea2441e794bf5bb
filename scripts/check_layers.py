"""Checks who includes and imports whom; prints each arrow that the layers do not allow."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from source_files import ROOT, source_files

COMPILER = {"base", "ir", "ops", "transforms"}
ENGINE = {"base", "program", "runtime"}

# Layer of a C++ file -> layers of pando/ that it may include.
CPP_LAYERS = {
    "pando/base": {"base"},
    "pando/ir": {"base", "ir"},
    "pando/ops": {"base", "ir", "ops"},
    "pando/transforms": COMPILER,
    "pando/compile": COMPILER | {"compile", "program"},
    "pando/program": {"base", "program"},
    "pando/runtime": ENGINE,
    "pando/backends": ENGINE | {"backends"},
    "pando/distributed": ENGINE | {"distributed"},
    "pando/session": COMPILER | ENGINE | {"compile", "backends", "distributed", "session"},
    "pando/pando.hpp": COMPILER | {"program", "session"},
    "python/bindings": COMPILER | {"session"},
    "tests/oracle": {"base", "ir", "ops"},
    "tools": COMPILER | {"compile", "program", "session"},
}

# Python package -> packages of the project that it may import beside itself.
PYTHON_PACKAGES: dict[str, set[str]] = {
    "pando": set(),
    "popart": {"pando"},
    "popdist": {"pando", "popart"},
    "popxl": {"pando", "popart", "popdist"},
    "popxl_addons": {"pando", "popart", "popdist", "popxl"},
    "poptorch": {"pando", "popart"},
    "pando_tensorflow": {"pando", "popart"},
}

# Programs that the pando package ships: they use a front end as any user's program does.
PROGRAMS = re.compile(r"python/pando/(demo\w*|gpt_\w*|session_info)\.py")

# The modules that give core and front-end objects their older private names look at both sides.
COMPATIBILITY = re.compile(r"python/popart/_internal/\w+\.py")

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]pando/([^">]+)[">]')


def cpp_faults(path: Path) -> list[str]:
    layer = next((name for name in CPP_LAYERS if path.as_posix().startswith(name)), None)
    if layer is None:
        return [] if not path.as_posix().startswith("pando/") else [f"{path}: in no known layer"]
    faults = []
    for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1):
        include = INCLUDE.match(line)
        if not include:
            continue
        target = include[1].split("/")[0]
        allowed = CPP_LAYERS[layer]
        if target not in allowed and not (target == "pando.hpp" and "session" in allowed):
            faults.append(
                f"{path}:{number}: {layer} may not include pando/{include[1]}"
                f" (only {', '.join(sorted(allowed))})"
            )
    return faults


def imported_packages(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.lineno, node.module.split(".")[0]))
    return found


def python_faults(path: Path) -> list[str]:
    package = path.parts[1]
    name = path.as_posix()
    if package not in PYTHON_PACKAGES or PROGRAMS.fullmatch(name) or COMPATIBILITY.fullmatch(name):
        return []
    allowed = PYTHON_PACKAGES[package] | {package}
    return [
        f"{path}:{number}: {package} may not import {target}"
        for number, target in imported_packages(ast.parse((ROOT / path).read_text()))
        if target in PYTHON_PACKAGES and target not in allowed
    ]


def main() -> int:
    faults = [fault for path in source_files("*.cpp", "*.hpp") for fault in cpp_faults(path)]
    for path in source_files("python/*.py"):
        faults += python_faults(path)
    print("\n".join(faults) if faults else "every include and import follows the layers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
