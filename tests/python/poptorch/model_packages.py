"""transformers, and torchvision beside a torch that its compiled operators were not built for.

The models of torchvision need none of those operators; importing it, which transformers does where
it finds it, wants their schemas. So it is in a folder of its own, which only tests look into.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import torch

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def _import_torchvision() -> ModuleType:
    """Import torchvision, with a schema for each operator that it cannot load itself."""
    sys.path.append(str(Path(sys.prefix) / "torchvision"))
    wanted: set[str] = set()
    while True:
        try:
            import torchvision
        except RuntimeError as error:
            found = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if found is None or found[1] in wanted:
                raise
            wanted.add(found[1])
            _LIBRARY.define(f"{found[1]}(Tensor _) -> Tensor")
        else:
            return torchvision


torchvision = _import_torchvision()
transformers = importlib.import_module("transformers")
