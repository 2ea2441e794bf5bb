"""The command `pando` of an installed package, which looks at programs in the text form."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from pando import _core


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, such as `pando opt --pass=cse FILE`; `pando --help` lists them.

    Args:
        arguments: The command and its arguments; None: those of the process.

    Returns:
        The exit status: 0, 1 for a fault in what was given, 2 for wrong arguments.
    """
    return _core.run_command_line(list(sys.argv[1:] if arguments is None else arguments))


def entry_point() -> None:
    """Runs the command that the process was started with, and ends the process."""
    # As with any tool: Ctrl-C and a closed pipe end it, also while the core computes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
