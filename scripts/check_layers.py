"""Checks who includes and imports whom; prints each arrow that the layers do not allow."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from python_imports import Import, find_circles, module_name, read_imports
from source_files import ROOT, source_files

COMPILER = {"base", "ir", "custom", "ops", "transforms"}
ENGINE = {"base", "program", "runtime"}

# Layer of a C++ file -> layers of pando/ that it may include.
CPP_LAYERS = {
    "pando/base": {"base"},
    "pando/ir": {"base", "ir"},
    "pando/custom": {"base", "custom"},
    "pando/ops": {"base", "ir", "custom", "ops"},
    "pando/transforms": COMPILER,
    "pando/steps": {"base", "ir", "program", "steps"},
    "pando/compile": COMPILER | {"compile", "program", "steps"},
    "pando/program": {"base", "program"},
    "pando/runtime": ENGINE,
    "pando/backends": ENGINE | {"custom", "backends"},
    "pando/distributed": ENGINE | {"distributed"},
    "pando/session": COMPILER | ENGINE | {"steps", "compile", "backends", "distributed", "session"},
    "pando/pando.hpp": COMPILER | {"program", "session"},
    "python/bindings": COMPILER | {"session"},
    "tests/oracle": {"base", "ir", "ops"},
    "tools": COMPILER | {"steps", "compile", "program", "session"},
}

# Python package, or module on a layer of its own -> what of these it may import beside itself.
PYTHON_LAYERS: dict[str, set[str]] = {
    "pando": set(),
    "popart": {"pando"},
    "popdist": {"pando", "popart"},
    "popxl": {"pando", "popart", "popdist"},
    "popxl_addons": {"pando", "popart", "popdist", "popxl"},
    "poptorch": {"pando", "pando.session_info", "popart", "popdist", "popxl", "popxl_addons"},
    "pando_tensorflow": {"pando", "popart"},
    # It tells what sessions of popxl did.
    "pando.session_info": {"pando", "popxl"},
    "pando_demo": {"pando", "pando.session_info", "popart", "poptorch", "popxl", "popxl_addons"},
}

# Modules whose classes all of their package is about. Modules that they import may name them for
# type checkers, as a tensor names its graph; no other import for type checkers may close a circle.
NAMED_FROM_BELOW = {
    "popart._internal.graph_view",
    "popart._internal.ir",
    "popart._internal.op_view",
    "popxl.graph",
    "popxl.ir",
    "popxl.session",
    "popxl.tensor_base",
    "popxl_addons.graph",
    "popxl_addons.module",
}

# Names of single front ends, which belong to the bindings and the packages in python/.
FRONT_END_NAME = re.compile(
    r"pop(?:art|dist|ef|lar|torch|xl)|graphcore|(?<![a-z])ipus?(?![a-z])", re.IGNORECASE
)
IPU_IN_CAMEL_CASE = re.compile(r"Ipus?(?![a-z])")

# Folders that know no machine: what depends on one is asked of the target.
WITHOUT_MACHINES = ("ir", "ops", "transforms", "steps", "compile")
MACHINE_NAME = re.compile(
    r"(?<![a-z])(?:cpus?|gpus?|cuda|simd|sse\d?|avx\w*|neon|x86\w*|arm|zen|hyperthread\w*|onednn|dnnl|\w*blas"
    r"|openmp|(?:l[123]|in) cache|cache lines?|cores|machine code)(?![a-z])",
    re.IGNORECASE,
)

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


def name_faults(path: Path, text: str) -> list[str]:
    """The core serves every front end, so it has the names of none."""
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        name = FRONT_END_NAME.search(line) or IPU_IN_CAMEL_CASE.search(line)
        if name:
            faults.append(f"{path}:{number}: '{name[0]}' is a name of a front end: keep it there")
    return faults


def machine_faults(path: Path, text: str) -> list[str]:
    """What is worth doing on one machine is not on another."""
    if path.parts[1] not in WITHOUT_MACHINES:
        return []
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        name = MACHINE_NAME.search(line)
        if name:
            faults.append(f"{path}:{number}: '{name[0]}' is about one machine: ask the target")
    return faults


def python_layer(module: str) -> str | None:
    names = [name for name in PYTHON_LAYERS if f"{module}.".startswith(f"{name}.")]
    return max(names, key=len, default=None)


def layer_faults(one: Import) -> list[str]:
    source, target = python_layer(one.source), python_layer(one.target)
    if source is None or source == target or target in PYTHON_LAYERS[source]:
        return []
    return [f"{one.place}: {source} may not import {target}"]


def package_faults(one: Import) -> list[str]:
    """A package whose own module imports it is half made at that moment."""
    inside = one.source.startswith(f"{one.target}.") or one.source == one.target
    if not inside:
        return []
    return [f"{one.place}: {one.source} imports its package {one.target}: name the module"]


def python_faults(root: Path, files: list[Path]) -> list[str]:
    faults = [
        f"{path}: in no known layer" for path in files if python_layer(module_name(path)) is None
    ]
    imports = read_imports(root, files)
    for one in imports:
        faults += layer_faults(one) + package_faults(one)
    for circle in find_circles(imports, NAMED_FROM_BELOW):
        steps = "".join(f"\n    {one.place}: {one.source} imports {one.target}" for one in circle)
        faults.append(f"{circle[0].place}: modules import each other in a circle{steps}")
    return faults


def main() -> int:
    faults = [fault for path in source_files("*.cpp", "*.hpp") for fault in cpp_faults(path)]
    for path in source_files("pando/*.cpp", "pando/*.hpp", "pando/*.def"):
        text = (ROOT / path).read_text()
        faults += name_faults(path, text) + machine_faults(path, text)
    faults += python_faults(ROOT, source_files("python/*.py"))
    print("\n".join(faults) if faults else "every include, import and name follows the layers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
