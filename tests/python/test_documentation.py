"""What the documentation says of names and defaults is what the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pando.settings import SessionSettings
from popart import SessionOptions

REPOSITORY = Path(__file__).resolve().parents[2]
SETTINGS_PAGE = REPOSITORY / "docs" / "guide" / "settings.md"
# A name in quotes in the sources, and one with a dollar sign in the shell. Tests also set variables
# for programs that they run: there only what is read counts.
QUOTED = re.compile(r'"((?:PANDO|POPXL|POPART|POPLAR|MODEL)_[A-Z_]+)"')
READ = re.compile(
    r"(?:environ\.get\(|environ\[|getenv\(|environment_or\(|VARIABLE = )" + QUOTED.pattern
)
SHELL = re.compile(r"\$\{?(PANDO_[A-Z_]+)")
FOLDERS = ("pando", "python", "tools", "benchmarks", "examples", "scripts", "tests")


def table() -> dict[str, dict[str, str]]:
    """Kind -> name -> default, as the page has them."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (.+?) \| .+ \|$", SETTINGS_PAGE.read_text(encoding="utf-8"), re.M
    )
    found: dict[str, dict[str, str]] = {}
    for name, kind, default in rows:
        assert name not in found.setdefault(kind, {}), f"{name} is there twice"
        found[kind][name] = default.strip("`")
    return found


def environment_names() -> set[str]:
    """Those that some source reads."""
    names: set[str] = set()
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".hpp") and path != Path(__file__).resolve():
                pattern = READ if folder == "tests" else QUOTED
                names |= set(pattern.findall(path.read_text(encoding="utf-8")))
    for path in (REPOSITORY / "dev", REPOSITORY / ".ci" / "run"):
        names |= set(SHELL.findall(path.read_text(encoding="utf-8")))
    return names


def test_every_environment_variable_is_in_the_table() -> None:
    known = table()
    names = environment_names()
    assert {"PANDO_REMOTE_TIER", "POPXL_CACHE_DIR", "PANDO_JOBS"} <= names
    assert names == {*known["environment"], *known["development"]}


def test_every_session_setting_is_in_the_table_with_its_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in environment_names():
        monkeypatch.delenv(name, raising=False)
    defaults = dataclasses.asdict(SessionSettings())
    assert table()["setting"] == {name: repr(value) for name, value in defaults.items()}


def test_every_session_option_is_in_the_table_with_its_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in environment_names():
        monkeypatch.delenv(name, raising=False)
    assert table()["option"] == {n: repr(v) for n, v in vars(SessionOptions()).items()}


def test_options_without_effect_are_those_that_the_log_names() -> None:
    text = SETTINGS_PAGE.read_text(encoding="utf-8")
    said = set(re.findall(r"^\| `(\w+)` \| option \| .+? \| no effect", text, re.M))
    for name in table()["option"]:
        options = SessionOptions()
        setattr(options, name, object())
        try:
            without_effect = set(options.check())
        except NotImplementedError:
            without_effect = set()
        assert (name in said) == (name in without_effect), name
