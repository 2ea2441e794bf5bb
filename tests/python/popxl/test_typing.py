"""What type checkers know of programs."""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]

PROGRAM = """
import numpy as np
import popxl
from popxl import ops
from popxl.tensor import Variable

def program(x: popxl.Tensor, w: Variable) -> None:
    reveal_type(x @ w)
    reveal_type(x + 1)
    reveal_type(1.5 - x)
    reveal_type(2 * w)
    reveal_type(x / [1.0, 2.0])
    reveal_type(True & x)
    reveal_type(x | w)
    reveal_type(x % 2)
    reveal_type(x ** 2)
    reveal_type(2 ** x)
    reveal_type(-x)
    reveal_type(~x)
    reveal_type(x[0])
    reveal_type(w[1:, None])
    reveal_type(x.T)
    reveal_type(ops.add(x, w) + np.ones(3))
    x += 1
    reveal_type(x)
"""


def checked(program, folder):
    """What mypy says of a program, with this project's settings."""
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY / "python")}
    result = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    return result.stdout + result.stderr


def test_operators_of_tensors_give_tensors(tmp_path):
    output = checked(PROGRAM, tmp_path)
    types = re.findall(r'Revealed type is "(.*)"', output)
    assert types == ["popxl.tensor_base.Tensor"] * PROGRAM.count("reveal_type"), output
    assert "Success: no issues found" in output


def test_what_does_not_exist_is_known(tmp_path):
    """Names that raise errors with hints do not count as names."""
    program = """
import popxl
def program(x: popxl.Tensor) -> None:
    x + object()
    popxl.nothing
"""
    output = checked(program, tmp_path)
    assert 'Unsupported operand types for + ("Tensor" and "object")' in output
    assert 'Module has no attribute "nothing"' in output
