"""The command line that the demos of decoders share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pando_demo.arguments import byte_count, count, finite_from_zero, positive
from pando_demo.gpt_network import SHAPES, GptShape, shape_of
from pando_demo.gpt_text import TextOptions

_SIZES = ("layers", "hidden", "heads", "sequence")


def gpt_parser(
    prog: str,
    description: str | None,
    folder: Path,
    memory: int,
    memory_help: str,
    steps: int,
    text_bytes: int,
) -> argparse.ArgumentParser:
    """Make a parser of the options that every demo of a decoder has.

    Args:
        prog: What the user called.
        description: What it does.
        folder: The default of --folder.
        memory: The default of --memory; 0: no limit.
        memory_help: What the user is told of --memory.
        steps: The default of --steps.
        text_bytes: How many bytes texts have without --write.

    Returns:
        The parser, which may be given more options.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--params", default="25M", help=f"{', '.join(SHAPES)}, or the nearest (%(default)s)")
    for name in _SIZES:
        add(f"--{name}", type=positive, help="instead of that of --params")
    add("--memory", type=byte_count, default=memory, help=memory_help)
    add("--steps", type=positive, default=steps, help="updates to make now (%(default)s)")
    add("--batch", type=positive, default=8, help="sequences in an update (%(default)s)")
    add("--micro-batches", type=positive, default=2, help="parts of the batch (%(default)s)")
    add("--learning-rate", type=float, default=3e-4, help="(%(default)s)")
    add("--warmup-steps", type=positive, help="until that rate (20 for 25M to 383 for 1.5B)")
    add("--data", help="any text file (Perl's manual)")
    add("--folder", type=Path, default=folder, help="for all state (%(default)s)")
    add("--resume", action="store_true", help="go on from the state saved in --folder")
    save_help = "steps between checkpoints, each a copy of all state (only at the end)"
    add("--save-every", type=positive, help=save_help)
    add("--no-save", action="store_true", help="keep nothing of this run")
    add("--plan", action="store_true", help="only say what the run will take, and end")
    add("--seed", type=int, default=42, help="(%(default)s)")
    add("--write", type=count, help=f"bytes of each text at the end, 0: none ({text_bytes})")
    add("--texts", type=positive, default=3, help="written at once (%(default)s)")
    add("--prompt", default="\n\n", help="what texts begin with (two newlines)")
    temperature_help = "0: always the best (%(default)s)"
    add("--temperature", type=finite_from_zero, default=0.8, help=temperature_help)
    add("--top-k", type=positive, default=40, help="bytes that are drawn from (%(default)s)")
    return parser


def parse_gpt(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Read the command line; the process ends if it is wrong.

    Args:
        parser: What `gpt_parser` made.
        arguments: The arguments; None: those of the process.

    Returns:
        The options by name.
    """
    options = parser.parse_args(arguments)
    if options.batch % options.micro_batches:
        parser.error(f"{options.micro_batches} micro-batches do not divide {options.batch}")
    return options


def chosen_shape(options: argparse.Namespace) -> tuple[str, GptShape]:
    """Find the sizes of the decoder that the user wants.

    Args:
        options: What `parse_gpt` gave.

    Returns:
        What it is called, "custom" if it is none of `SHAPES`, and its sizes.

    Raises:
        ValueError: --params is no number.
    """
    name, known = shape_of(options.params)
    shape = known.with_changes(**{size: getattr(options, size) for size in _SIZES})
    return name if shape == known else "custom", shape


def chosen_text(shape: GptShape, options: argparse.Namespace, text_bytes: int) -> TextOptions:
    """Find what the user wants written.

    Args:
        shape: The sizes of the decoder.
        options: What `parse_gpt` gave.
        text_bytes: How many bytes texts have without --write.

    Returns:
        The options of the texts.

    Raises:
        ValueError: Texts are longer than the decoder allows, or there is no prompt.
    """
    return TextOptions.fitting(
        shape,
        options.write,
        options.prompt,
        text_bytes,
        texts=options.texts,
        temperature=options.temperature,
        top_k=options.top_k,
        seed=options.seed,
    )
