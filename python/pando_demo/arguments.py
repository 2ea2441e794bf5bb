"""Kinds of command line arguments."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A number of a command line.

    Args:
        text: What the user wrote.

    Returns:
        A whole number of at least 1.

    Raises:
        ArgumentTypeError: The number is less than 1.
        ValueError: It is no whole number.
    """
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value
