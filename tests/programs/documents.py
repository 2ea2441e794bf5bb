"""Takes the programs out of the tutorial documents, where they are at hand.

The documents are plain text: code, prose and recorded output follow each other. They are looked
for in the folder that PANDO_TUTORIAL_DOCUMENTS names, else in shared/seeds beside the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FOLDER_VARIABLE = "PANDO_TUTORIAL_DOCUMENTS"
REPOSITORY = Path(__file__).resolve().parents[2]
SHIMS = Path(__file__).resolve().parent / "shims"
# Seconds that a program may take. Under a sanitizer, `./dev test` gives it more.
TIME_LIMIT = 600 * int(os.environ.get("PANDO_TIME_LIMIT_FACTOR", "1"))


def document(name: str) -> str:
    """The text of a document; skips the test when it is not there."""
    named = os.environ.get(FOLDER_VARIABLE)
    folders = [Path(named)] if named else [REPOSITORY.parent / "shared" / "seeds"]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    pytest.skip(f"the document {name} is not in {folders[0]} (set {FOLDER_VARIABLE} to its folder)")


def between(text: str, start: str, end: str) -> str:
    """The lines from the first one that starts with `start` up to the next that starts with
    `end`."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    last = next(i for i in range(first + 1, len(lines)) if lines[i].startswith(end))
    return "\n".join(lines[first:last]) + "\n"


def numbered_lines(text: str) -> dict[int, str]:
    """Listings with a line number before each line: number -> code.

    Headings such as "16.1. Title" also start with a number; code never goes on with a dot.
    """
    result: dict[int, str] = {}
    for line in text.splitlines():
        match = re.match(r"^ *(\d{1,3})(?![.\d])(.*)$", line)
        if match:
            result[int(match[1])] = match[2]
    return result


def notebook_cells(text: str) -> list[str]:
    """The code cells of a notebook that was printed as text: each starts after its prompt and ends
    at the next prompt or heading."""
    cells: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("In [None]:"):
            cells.append([])
            inside = True
        elif line.startswith("### "):
            inside = False
        elif inside:
            cells[-1].append(line)
    return ["\n".join(cell) + "\n" for cell in cells]


def run_program(
    source: str, folder: Path, arguments: Sequence[str] = (), **environment: str
) -> str:
    """Runs a program with the data shims in a process of its own; returns what it printed."""
    program = folder / "program.py"
    program.write_text(source, encoding="utf-8")
    paths = [str(SHIMS), *(path for path in sys.path if path)]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    result = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout
