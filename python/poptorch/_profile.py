"""The profile of a model: where its memory and its time go, as files."""

from __future__ import annotations

from pathlib import Path

import popxl
from pando.session_info import session_report
from poptorch._logging import logger
from poptorch.options import Options


def model_name(options: Options, training: bool) -> str:
    """Name a model in reports.

    Args:
        options: The model's own options.
        training: Whether it trains.

    Returns:
        The name that options give, or `training` or `inference`.
    """
    return options.model_name or ("training" if training else "inference")


def write_profile(session: popxl.Session, options: Options, training: bool) -> None:
    """Write the reports of a session that noted times, where options ask for a profile.

    Where they cannot be written, that is a warning: the device is given up all the same.

    Args:
        session: The session, which holds its device.
        options: The model's own options.
        training: Whether the program trains.
    """
    folder = options.profile_folder
    if folder is None:
        return
    name = model_name(options, training)
    path = Path(folder) / name
    report = session_report(session, name)
    try:
        path.mkdir(parents=True, exist_ok=True)
        report.write_html(path / "profile.html")
        (path / "profile.json").write_text(report.json())
        report.write_perfetto(path / "profile.perfetto.json")
    except OSError as error:
        logger.warning("The profile cannot be written, as enableProfiling asks: %s", error)
