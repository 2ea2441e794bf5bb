"""Failures of samples of the operator database whose reasons are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tomllib

EXCEPTIONS = Path(__file__).with_name("operator_exceptions.toml")


@dataclass(frozen=True)
class KnownFailure:
    """What failures of an operator contain, and why they are."""

    text: str
    reason: str


def exceptions() -> dict[tuple[str, str], KnownFailure]:
    """Known failures of operators, by name with variant and dtype."""
    entries = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))["exception"]
    return {
        (e["name"], dtype): KnownFailure(e["failure"], e["reason"])
        for e in entries
        for dtype in e["dtypes"]
    }


def unknown_failures(failures: list[str], known: KnownFailure | None) -> list[str]:
    """Those failures of an operator that are not the known one."""
    return [text for text in failures if known is None or known.text not in text]
