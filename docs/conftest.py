"""Runs the examples of the pages: one namespace and one folder a page, printed values compared."""

from __future__ import annotations

import os
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def _enter_folder(namespace: dict[str, Any]) -> None:
    namespace["_started_in"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory(prefix="pando-page-")
    os.chdir(namespace["_folder"].name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_started_in"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["*.md", "guide/*.md"],
    setup=_enter_folder,
    teardown=_leave_folder,
).pytest()
