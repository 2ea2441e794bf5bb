"""Tries a wheel where nothing else is: `check_wheel.py dist/pando_ml-*.whl`.

In an environment of its own, made in an empty folder, with only what the wheel asks for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "python"
OWN_OP = EXAMPLES.parent / "custom_op"

# What every Linux that manylinux names has, and GCC's OpenMP, which oneDNN's package asks for.
SYSTEM_LIBRARIES = re.compile(
    r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp)\.so\.\d+|ld-linux-x86-64\.so\.2|linux-vdso\.so\.1"
)

PROGRAM = """\
pando-ir 1
replicas 1
transfers 1
counters 4 0 0
to_host "y"
graph "" {
  variable "v" : () float32 = hex "0000803f"
  stream "y" : () float32
  Neg.1("v") -> ("a" : () float32)
  Abs.2("v") -> ("unused" : () float32)
  HostStore.3("a") {stream = "y"} -> ()
}
"""

# Arguments of the command `pando`, which reads PROGRAM, and what it prints.
COMMANDS = [
    (["--help"], "usage: pando COMMAND"),
    (["ops"], "MatMul"),
    (["passes"], "dead_code"),
    (["cache", "size", "."], "0 bytes in 0 programs"),
    (["verify", "-"], "valid: 1 graphs, 3 ops"),
    (["dot", "-"], "digraph"),
    (["opt", "--pass=dead_code", "-"], 'Neg.1("v")'),
    (["explain", "-"], "peak frame"),
]


class Installed:
    """An environment below `folder` with the wheel and what it depends on."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.prefix = folder / "environment"
        self._empty = folder / "empty"
        self._empty.mkdir()
        run([sys.executable, "-m", "venv", str(self.prefix)])
        pip = [
            str(self.prefix / "bin" / "pip"),
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run([*pip, str(wheel)])

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        """What a program of the environment prints, run in an empty folder."""
        command = [str(self.prefix / "bin" / program), *arguments]
        return run(command, cwd=self._empty, text=text)


def run(command: list[str], cwd: Path | None = None, text: str = "") -> str:
    """Runs a command without any of this process's settings; returns what it printed."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        command, cwd=cwd, env=environment, input=text, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise SystemExit(
            f"check_wheel: {' '.join(command)} ended with {done.returncode}:\n"
            f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def check_libraries(installed: Installed) -> None:
    """Every library that the module loads is in the environment or one of SYSTEM_LIBRARIES."""
    module = installed.run("python", "-c", "from pando import _core; print(_core.__file__)").strip()
    for line in run(["ldd", module]).splitlines():
        name, path = line.split()[0], line.partition("=> ")[2].split(" (")[0]
        inside = path.startswith(str(installed.prefix))
        if not inside and not SYSTEM_LIBRARIES.fullmatch(Path(name).name):
            raise SystemExit(f"check_wheel: the module loads {name} from {path or 'nowhere'}")


def check_imports(installed: Installed) -> None:
    """Every module can be imported, from the environment, but those of the extra `torch`."""
    program = """
import importlib, pkgutil, sys
packages = ("pando", "pando_demo", "popart", "popdist", "popxl", "popxl_addons")
for package in packages:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, package + "."):
        if not module.name.startswith("pando_demo.torch_"):
            importlib.import_module(module.name)
for name, module in sys.modules.items():
    if name.split(".")[0] in packages:
        assert module.__file__.startswith(sys.prefix), (name, module.__file__)
"""
    installed.run("python", "-c", program)


def check_training(installed: Installed) -> None:
    """An example trains on real images."""
    printed = installed.run("python", str(EXAMPLES / "train_mnist.py"), "--steps", "1000")
    accuracy = float(re.findall(r"accuracy on the test images: ([\d.]+) %", printed)[0])
    if accuracy < 70:
        raise SystemExit(f"check_wheel: wanted an accuracy of 70 % at least; found {accuracy} %")


def check_own_ops(installed: Installed, folder: Path) -> None:
    """A library that is compiled with the wheel's header runs."""
    program = "import pando; print(pando.get_include())"
    include = installed.run("python", "-c", program).strip()
    library = folder / "libsnake.so"
    compiler = ["c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-I", include]
    run([*compiler, str(OWN_OP / "snake.cpp"), "-o", str(library)])
    printed = installed.run("python", str(OWN_OP / "snake.py"), str(library))
    if "x became 2.7963" not in printed:
        raise SystemExit(f"check_wheel: wanted the end of the example; printed:\n{printed}")


def check_commands(installed: Installed) -> None:
    """The command `pando` has all its sub-commands."""
    for arguments, wanted in COMMANDS:
        printed = installed.run("pando", *arguments, text=PROGRAM)
        if wanted not in printed:
            command = " ".join(["pando", *arguments])
            raise SystemExit(f"check_wheel: wanted {wanted!r} of {command}; printed:\n{printed}")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        raise SystemExit(f"check_wheel: wanted one wheel; given {arguments}")
    with tempfile.TemporaryDirectory() as folder:
        installed = Installed(Path(folder), Path(arguments[0]))
        check_libraries(installed)
        check_imports(installed)
        check_training(installed)
        check_own_ops(installed, Path(folder))
        check_commands(installed)
    print(f"{Path(arguments[0]).name}: installed, imported, trained and looked at programs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
