"""Prints requirements out of pyproject.toml: `requirements.py build runtime EXTRA...`.

`build` is what a build needs, `runtime` what an installed package needs, any other name an extra.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(names: list[str]) -> list[str]:
    settings = tomllib.loads(PYPROJECT.read_text())
    groups = {
        "build": settings["build-system"]["requires"],
        "runtime": settings["project"]["dependencies"],
        **settings["project"]["optional-dependencies"],
    }
    unknown = [name for name in names if name not in groups]
    if unknown:
        raise SystemExit(f"requirements.py: no group {unknown[0]!r}; there are {', '.join(groups)}")
    return sorted({requirement for name in names for requirement in groups[name]})


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
