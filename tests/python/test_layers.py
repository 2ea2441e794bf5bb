"""What scripts/check_layers.py says of packages, and what a fresh `import popxl` loads."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Faults = Callable[[dict[str, str]], list[str]]


@pytest.fixture
def faults_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """What is wrong with packages that have these files; they have an empty __init__ each."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    check_layers = importlib.import_module("check_layers")

    def faults(sources: dict[str, str]) -> list[str]:
        files = {Path("python") / name: text for name, text in sources.items()}
        for path in list(files):
            for package in path.parents[:-2]:
                files.setdefault(package / "__init__.py", "")
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        found: list[str] = check_layers.python_faults(tmp_path, sorted(files))
        return found

    return faults


def test_packages_that_follow_the_layers(faults_of: Faults) -> None:
    sources = {
        "pando/given.py": "import json\nfrom pando import _core\n",
        "popart/view.py": "from pando import given\n",
        "popxl/tensor.py": "from popart.view import View\nfrom popxl import dtypes\n",
        "popxl/dtypes.py": "from popart import view\n",
        "popxl/__init__.py": "from popxl import tensor\nfrom popxl.dtypes import dtype\n",
        "pando/session_info.py": "import popxl\n",
        "pando_demo/images.py": "import popxl\nfrom pando import session_info\n",
    }
    assert faults_of(sources) == []


@pytest.mark.parametrize(
    "text",
    [
        "import popxl\n",
        "from popxl.ir import Ir\n",
        "def f():\n    from popxl import ir\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from popxl.ir import Ir\n",
        "import importlib\n\nir = importlib.import_module('popxl.ir')\n",
    ],
)
def test_a_lower_package_may_not_import_a_higher_one(faults_of: Faults, text: str) -> None:
    found = faults_of({"popxl/ir.py": "", "popart/view.py": text})
    line = 1 + text[: text.index("popxl")].count("\n")
    assert found == [f"python/popart/view.py:{line}: popart may not import popxl"]


@pytest.mark.parametrize("target", ["pando_demo.images", "pando.session_info"])
def test_the_library_imports_no_program(faults_of: Faults, target: str) -> None:
    sources = {
        "pando_demo/images.py": "",
        "pando/session_info.py": "",
        "pando/report.py": f"import {target}\n",
    }
    layer = "pando_demo" if target == "pando_demo.images" else target
    assert faults_of(sources) == [f"python/pando/report.py:1: pando may not import {layer}"]


def test_a_new_package_needs_a_layer(faults_of: Faults) -> None:
    assert faults_of({"other/a.py": "import popxl\n"}) == [
        "python/other/__init__.py: in no known layer",
        "python/other/a.py: in no known layer",
    ]


@pytest.mark.parametrize("text", ["import popxl\n", "from popxl import Tensor\n"])
def test_a_module_names_modules_of_its_package(faults_of: Faults, text: str) -> None:
    found = faults_of({"popxl/ops/add.py": text})
    assert found == [
        "python/popxl/ops/add.py:1: popxl.ops.add imports its package popxl: name the module"
    ]


def test_circles_through_functions_are_found(faults_of: Faults) -> None:
    sources = {
        "popxl/ir.py": "from popxl.graph import Graph\n",
        "popxl/graph.py": "\ndef owner():\n    from .ir import Ir\n    return Ir\n",
    }
    assert faults_of(sources) == [
        "python/popxl/graph.py:3: modules import each other in a circle\n"
        "    python/popxl/graph.py:3: popxl.graph imports popxl.ir\n"
        "    python/popxl/ir.py:1: popxl.ir imports popxl.graph"
    ]


def test_a_package_around_the_target_is_part_of_a_circle(faults_of: Faults) -> None:
    sources = {
        "popxl/tensor.py": "from popxl.ops.names import NAMES\n",
        "popxl/ops/names.py": "",
        "popxl/ops/__init__.py": "from popxl.ops import add\n",
        "popxl/ops/add.py": "from popxl.tensor import Tensor\n",
    }
    (found,) = faults_of(sources)
    assert found.splitlines()[1:] == [
        "    python/popxl/ops/__init__.py:1: popxl.ops imports popxl.ops.add",
        "    python/popxl/ops/add.py:1: popxl.ops.add imports popxl.tensor",
        "    python/popxl/tensor.py:1: popxl.tensor imports popxl.ops.names",
    ]


@pytest.mark.parametrize(("test", "count"), [("TYPE_CHECKING", 0), ("not TYPE_CHECKING", 1)])
def test_types_may_name_each_other(faults_of: Faults, test: str, count: int) -> None:
    sources = {
        "popxl/ir.py": "from popxl.graph import Graph\n",
        "popxl/graph.py": f"if {test}:\n    from popxl.ir import Ir\n",
    }
    assert len(faults_of(sources)) == count


def test_other_imports_for_types_close_no_circle(faults_of: Faults) -> None:
    sources = {
        "popxl/streams.py": "from popxl import dtypes\n",
        "popxl/dtypes.py": "if TYPE_CHECKING:\n    from popxl.streams import Stream\n",
    }
    assert faults_of(sources) == [
        "python/popxl/dtypes.py:2: modules import each other in a circle\n"
        "    python/popxl/dtypes.py:2: popxl.dtypes imports popxl.streams\n"
        "    python/popxl/streams.py:1: popxl.streams imports popxl.dtypes"
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/// `popart_exception` in Python", "popart"),
        ('throw TypeError("wanted popxl.float8_143");', "popxl"),
        ('.add({.name = "IpuCopy"});', "Ipu"),
        ('op.attributes.ints("ipus")', "ipus"),
        ('constexpr const char* kSuffix = ".popef";', "popef"),
        ("// as PopTorch does", "PopTorch"),
        ("kNumIpus", "Ipus"),
        ("inputs, outputs, popcount(x), Manipulate, kInput", ""),
    ],
)
def test_the_core_has_no_names_of_a_front_end(
    monkeypatch: pytest.MonkeyPatch, line: str, name: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    check_layers = importlib.import_module("check_layers")
    found = check_layers.name_faults(Path("pando/ir/op.cpp"), f"namespace pando {{\n{line}\n")
    wanted = f"pando/ir/op.cpp:2: '{name}' is a name of a front end: keep it there"
    assert found == ([wanted] if name else [])


@pytest.mark.parametrize(
    "line", ["if (is_cpu) {", "/// A block stays in cache.", "// As many as AVX2 has."]
)
def test_the_compiler_knows_no_machine(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    check_layers = importlib.import_module("check_layers")
    assert len(check_layers.machine_faults(Path("pando/compile/groups.cpp"), f"{line}\n")) == 1
    assert check_layers.machine_faults(Path("pando/backends/cpu/groups.cpp"), f"{line}\n") == []


def test_importing_popxl_loads_only_what_every_program_needs() -> None:
    program = "import sys, popxl; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert {"popxl", "popxl.ops", "popart", "numpy"} <= loaded
    unwanted = {
        *("torch", "tqdm", "wandb", "html", "popdist", "popxl_addons", "pando_demo"),
        *("pando.session_info", "pando.report", "popxl.notebook", "popart._internal.op_kinds"),
    }
    assert not loaded & unwanted
