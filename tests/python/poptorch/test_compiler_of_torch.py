"""A trace does without torch's compiler, and with it where somebody needs it. In new processes, in
which nothing has imported it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
import sys
import torch
import poptorch

class Model(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self._forward = compile(forward, "forward", "exec")

    def forward(self, x):
        exec(self._forward)
        return torch.relu(x) + 1

def run(forward=""):
    options = poptorch.Options().showCompilationProgressBar(False)
    return poptorch.inferenceModel(Model(forward), options)(torch.tensor([-1.0, 2.0])).tolist()

assert "torch._dynamo" not in sys.modules
"""

WITHOUT = """
assert run() == [1.0, 3.0]
assert "torch._dynamo" not in sys.modules
compiled = torch.compile(lambda x: torch.relu(x) + 1, backend="eager", fullgraph=True)
assert compiled(torch.tensor([-1.0, 2.0])).tolist() == [1.0, 3.0]
assert callable(torch._dynamo.optimize)
assert (torch.ones(3, device="meta") + 1).shape == (3,)
assert run() == [1.0, 3.0]
"""

# Each in a process of its own, without the time that importing torch takes.
EACH_IN_A_FORK = """
for forward in {forwards}:
    process = os.fork()
    if process == 0:
        assert run(forward) == [1.0, 3.0], forward
        import torch._dynamo as compiler
        assert callable(compiler.optimize), forward
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0, forward
"""

# What a model does in its forward pass that takes the compiler.
NEEDS = (
    "import torch._dynamo.config as config; assert config.recompile_limit > 0",
    "from torch._dynamo import is_compiling; assert is_compiling()",
    "assert torch._dynamo.list_backends() and torch.compiler.is_compiling()",
)


def check(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_trace_imports_no_compiler_and_leaves_it_usable() -> None:
    check(PROGRAM + WITHOUT)


def test_a_model_that_needs_the_compiler_has_it() -> None:
    check(PROGRAM + EACH_IN_A_FORK.format(forwards=NEEDS))
