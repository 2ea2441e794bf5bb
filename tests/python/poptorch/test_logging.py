"""Loggers: levels, formats, destinations, repetitions; and what importing the package changes."""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import poptorch
from poptorch import _logging


@pytest.fixture(autouse=True)
def _same_levels() -> Iterator[None]:
    yield
    poptorch.setLogLevel("WARN")
    _logging.set_repeat_limit(4)


def in_a_new_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if "POPTORCH" not in key}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_line_formats(capsys: pytest.CaptureFixture[str]) -> None:
    poptorch.setLogLevel("TRACE")
    _logging.logger.warning("one %d", 1)
    _logging.logger.debug("two")
    _logging.native_logger.info("three")
    _logging.native_logger.log(_logging.TRACE, "four")
    written = capsys.readouterr()
    lines = [re.sub(r"^\[\d\d:\d\d:\d\d\.\d\d\d\] ", "", line) for line in written.err.splitlines()]
    assert lines == [
        "[poptorch::python] [warning] one 1",
        "[poptorch::python] [debug] two",
        "[poptorch:cpp] [info] three",
        "[poptorch:cpp] [trace] four",
    ]
    assert all(re.match(r"\[\d\d:\d\d:\d\d\.\d{3}\] ", line) for line in written.err.splitlines())
    assert written.out == ""


def test_colours_only_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    _logging.logger.error("plain")
    monkeypatch.setattr(sys, "stdout", out)
    _logging.logger.error("coloured")
    first, second = err.getvalue().splitlines()
    assert "\033" not in first
    assert second.startswith("\033[31m[") and second.endswith("coloured\033[0m")


@pytest.mark.parametrize(
    ("level", "number"),
    [
        ("TRACE_ALL", 3), ("TRACE", 5), ("DEBUG_IR", 8), ("DEBUG", 10), ("INFO", 20), ("WARN", 30),
        ("ERR", 40), ("OFF", 60), (0, 5), (1, 10), (2, 20), (3, 30), (4, 40), (6, 60),
    ],
)  # fmt: skip
def test_levels(level: str | int, number: int) -> None:
    poptorch.setLogLevel(level)
    assert logging.getLogger("poptorch::python").level == number
    assert logging.getLogger("poptorch:cpp").level == number


def test_unknown_levels_are_refused() -> None:
    for number in (5, 7, -1):
        with pytest.raises(ValueError, match=r"^Invalid log level integer$"):
            poptorch.setLogLevel(number)
    for text in ("warn", "CRITICAL", ""):
        with pytest.raises(ValueError) as caught:
            poptorch.setLogLevel(text)
        assert str(caught.value) == (
            f"Unknown log level: {text}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN"
        )
    assert _logging.logger.level == logging.WARNING


def test_level_of_sessions() -> None:
    before = logging.getLogger("popart.session").level
    try:
        _logging.setPopartLogLevel("ERR")
        assert logging.getLogger("popart.session").level == logging.ERROR
        with pytest.raises(ValueError, match="Unknown log level"):
            _logging.setPopartLogLevel("loud")
    finally:
        logging.getLogger("popart.session").setLevel(before)


_DAMAGED_CACHE = """
import pathlib, sys, poptorch, torch
from poptorch import _logging
folder = pathlib.Path(sys.argv[1])
def run():
    options = poptorch.Options().showCompilationProgressBar(False)
    options.enableExecutableCaching(str(folder))
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options)(torch.ones(1, 2))
run()
for file in folder.iterdir():
    if file.is_file():
        file.write_bytes(file.read_bytes()[:100])
for setting in sys.argv[2:]:
    name, level = setting.split("=")
    getattr(_logging, name)(level)
run()
"""


@pytest.mark.parametrize(
    ("settings", "is_written"),
    [
        ([], True),
        (["setLogLevel=OFF"], False),
        (["setPopartLogLevel=OFF"], False),
        (["setLogLevel=OFF", "setPopartLogLevel=WARN"], True),
    ],
)
def test_what_sessions_tell_is_written_by_the_native_logger(
    tmp_path: Path, settings: list[str], is_written: bool
) -> None:
    log = tmp_path / "log.txt"
    result = subprocess.run(
        [sys.executable, "-c", _DAMAGED_CACHE, str(tmp_path / "cache"), *settings],
        env={**os.environ, "POPTORCH_LOG_DEST": str(log)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == "" and result.stdout == ""
    lines = log.read_text().splitlines()
    assert bool(lines) == is_written
    for line in lines:
        assert re.match(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch:cpp\] \[warning\] ", line)
    assert not lines or "executable cache" in lines[0]


def test_repetitions_are_muted(capsys: pytest.CaptureFixture[str]) -> None:
    _logging.set_repeat_limit(2)
    for number in range(5):
        _logging.logger.warning("the same again")
        _logging.logger.warning("number %d", number)
    text = capsys.readouterr().err
    assert text.count("[warning] the same again") == 2
    assert text.count("repeated 2 times and is muted from now on: the same again") == 1
    assert all(f"number {number}" in text for number in range(5))
    _logging.set_repeat_limit(None)
    for _ in range(7):
        _logging.logger.warning("another one")
    assert capsys.readouterr().err.count("another one") == 7


def test_environment_and_import_effects(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = """
import faulthandler, os, poptorch, sys
from poptorch._logging import logger
assert faulthandler.is_enabled()
assert os.environ["RDMAV_FORK_SAFE"] == "1"
assert poptorch.isRunningOnIpu() is False
logger.info("said")
raise KeyError("nobody catches this")
"""
    result = in_a_new_process(code, POPTORCH_LOG_LEVEL="INFO", POPTORCH_LOG_DEST=str(log))
    assert result.returncode == 1
    assert result.stderr == "" and result.stdout == ""
    text = log.read_text()
    assert "[poptorch::python] [info] said" in text
    assert "[poptorch::python] [critical] Uncaught exception" in text
    assert "Traceback" in text and "KeyError: 'nobody catches this'" in text


def test_log_to_stdout_and_what_off_does_not_write() -> None:
    code = "import poptorch; poptorch._logging.logger.warning('here'); raise KeyError('seen')"
    result = in_a_new_process(code, POPTORCH_LOG_DEST="stdout", RDMAV_FORK_SAFE="0")
    assert "[warning] here" in result.stdout and "KeyError: 'seen'" in result.stdout
    assert result.stderr == ""
    result = in_a_new_process(code, POPTORCH_LOG_LEVEL="OFF")
    assert result.stdout == "" and result.stderr.endswith("KeyError: 'seen'\n")
    assert "here" not in result.stderr.replace("warning('here')", "")


def test_bad_environment() -> None:
    result = in_a_new_process("import poptorch", POPTORCH_LOG_LEVEL="LOUD")
    assert "Unknown log level: LOUD. Valid values are" in result.stderr
    result = in_a_new_process("import poptorch", POPTORCH_LOG_DEST="/nowhere/at/all")
    assert "POPTORCH_LOG_DEST: wanted stdout, stderr or a file" in result.stderr


def test_sigterm_still_ends_the_process() -> None:
    code = "import os, poptorch, signal; os.kill(os.getpid(), signal.SIGTERM); print('on')"
    result = in_a_new_process(code)
    assert result.returncode == -signal.SIGTERM
    assert "on" not in result.stdout
    assert "Current thread" in result.stderr
