"""Kinds of command line arguments."""

from __future__ import annotations

import argparse
import math

from pando.process_memory import parse_bytes


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


def count(text: str) -> int:
    """A number of a command line, or none of something.

    Args:
        text: What the user wrote.

    Returns:
        A whole number of at least 0.

    Raises:
        ArgumentTypeError: The number is less than 0.
        ValueError: It is no whole number.
    """
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is not 0 or more")
    return value


def byte_count(text: str) -> int:
    """A number of bytes of a command line.

    Args:
        text: What the user wrote, such as "4GiB".

    Returns:
        The bytes, at least 1.

    Raises:
        ArgumentTypeError: It is anything else.
    """
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def finite_from_zero(text: str) -> float:
    """A number of a command line.

    Args:
        text: What the user wrote.

    Returns:
        A finite number of at least 0.

    Raises:
        ArgumentTypeError: The number is less than 0, infinite or NaN.
        ValueError: It is no number.
    """
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{value} is not finite and 0 or more")
    return value
