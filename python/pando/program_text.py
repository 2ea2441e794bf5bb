"""Programs in the text form, which the commands `pando explain`, `opt`, `verify` and `dot` read."""

from __future__ import annotations

from typing import Any


def program_text(ir: Any, max_data_bytes: int | None = None) -> str:
    """Write a program as text.

        Path("program.txt").write_text(program_text(ir))

    Then `pando explain --stage=cse program.txt` prints what the compiler had made of it after a
    stage, and `pando explain program.txt` the instructions, kernels and memory of the compiled
    program. `pando --help` lists what else reads this form.

    Args:
        ir: A popxl Ir, before or after a session was made of it.
        max_data_bytes: Values of constants and variables of more bytes are left out; None: all are
            written, and nothing of the program is lost.

    Returns:
        The text, with the file and line that each op comes from.

    Raises:
        ValueError: `max_data_bytes` is negative.
    """
    if max_data_bytes is not None and max_data_bytes < 0:
        raise ValueError(f"program_text: max_data_bytes: wanted 0 or more; given {max_data_bytes}")
    text: str = ir._pb.text(max_data_bytes)
    return text
