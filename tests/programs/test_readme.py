"""The program of README.md, run as a reader runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documents import REPOSITORY, run_program

from pando.datasets import DEFAULT_FOLDER

NUMBER = re.compile(r"\d+\.\d+")


def program_and_output() -> tuple[str, str]:
    """The first Python block, and the block after it."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S)
    assert found is not None
    return found[1], found[2]


@pytest.mark.skipif(not DEFAULT_FOLDER.is_dir(), reason=f"{DEFAULT_FOLDER} is not installed")
def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    program, shown = program_and_output()
    printed = run_program(program, tmp_path)
    assert NUMBER.sub("number", printed) == NUMBER.sub("number", shown)
    # Sums in another order, on another processor, change what training amplifies.
    values = [[float(x) for x in NUMBER.findall(text)] for text in (printed, shown)]
    assert values[0] == pytest.approx(values[1], abs=0.01)
    assert values[0][-1] < 0.7 * values[0][0]


def test_links_lead_to_files() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) > 8
    assert [link for link in links if not (REPOSITORY / link).exists()] == []
