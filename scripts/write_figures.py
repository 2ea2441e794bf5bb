"""Writes the tables of figures in README.md and docs/performance.md from docs/figures.json.

`./dev bench figures` measures and writes the JSON; `write_figures.py --check` fails where a page
does not agree with it. A row that falls short needs a reason in docs/figure_reasons.toml.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "torch_eager": "PyTorch eager",
    "torch_compile": "torch.compile",
    "jax": "JAX",
    "mlx": "MLX",
}
LIBRARY_SUM_LIMIT = 1.2
# The best peer's over ours.
WANTED_OF_MODELS = {"time": 1.1, "memory": 1.0, "first step": 1.0}
# Training of whole models takes at most 0.7 of the peer's memory.
WANTED_TRAINING_MEMORY = 1 / 0.7
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"

Row = dict[str, Any]
Sections = dict[str, dict[str, Any]]


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or denominator is None else numerator / denominator


def times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def duration(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def best_peer(row: Row) -> tuple[str, float] | None:
    measured = {name: row[name] for name in PEERS if row.get(name) is not None}
    if not measured:
        return None
    name = min(measured, key=lambda peer: measured[peer])
    return PEERS[name], measured[name]


def against_best(row: Row) -> float | None:
    peer = best_peer(row)
    return None if peer is None else ratio(peer[1], row["pando"])


def provenance(section: dict[str, Any]) -> str:
    m = section["measured"]
    if m.get("quick"):
        raise SystemExit("docs/figures.json: a section was measured with --quick, which is a check")
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    sets = ", ".join(m["instruction_sets"]) or "no vector extension named"
    return (
        f"{m['cores']} cores of {m['processor']} ({sets}), {m['date']}, commit `{m['commit']}`;"
        f" Python {m['python']}, {versions}."
    )


def peers_table(rows: list[Row]) -> str:
    header = ["program", "Pando", "PyTorch eager / Pando", "best peer / Pando", "best peer"]
    header += ["Pando / library sum", "Pando / lower bound"]
    lines = []
    for row in rows:
        peer = best_peer(row)
        lines.append(
            [
                f"`{row['name']}`",
                duration(row["pando"], row["unit"]),
                times(ratio(row["torch_eager"], row["pando"])),
                times(against_best(row)),
                peer[0] if peer else "-",
                times(ratio(row["pando"], row["library_sum"])),
                times(ratio(row["pando"], row["lower_bound"])),
            ]
        )
    return markdown(header, lines)


def model_ratios(row: Row) -> dict[str, float | None]:
    """Time, memory and time to the first step of the fastest peer over those of Pando."""
    peers = [name for name in PEERS if row.get(name) is not None]
    measured = {
        "time": row,
        "memory": row["added_mebibytes"],
        "first step": row["first_step_seconds"],
    }
    if not peers:
        return dict.fromkeys(measured)
    peer = min(peers, key=lambda name: row[name])
    return {what: ratio(found.get(peer), found.get("pando")) for what, found in measured.items()}


def models_table(rows: list[Row]) -> str:
    header = ["model", "Pando", "memory", "first step", "best peer"]
    header += ["best peer / Pando: time", "memory", "first step"]
    lines = []
    for row in rows:
        peer = best_peer(row)
        memory = row["added_mebibytes"].get("pando")
        first = row["first_step_seconds"].get("pando")
        lines.append(
            [
                f"`{row['name']}`",
                duration(row["pando"], row["unit"]),
                "-" if memory is None else f"{memory:,.0f} MiB",
                "-" if first is None else f"{first:.2f} s",
                peer[0] if peer else "-",
                *map(times, model_ratios(row).values()),
            ]
        )
    lines += [
        [f"geometric mean, {title}", *["-"] * 4, *map(times, means)]
        for title, mode in (("training", "train"), ("inference", "infer"))
        if (means := mean_ratios([row for row in rows if row["mode"] == mode]))
    ]
    return markdown(header, lines)


def mean_ratios(rows: list[Row]) -> list[float]:
    """Geometric means over the rows that have all three ratios."""
    found = [list(model_ratios(row).values()) for row in rows]
    complete = [[r for r in ratios if r is not None] for ratios in found if None not in ratios]
    columns = zip(*complete, strict=True)
    return [statistics.geometric_mean(column) for column in columns]


def memory_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        detail = ", ".join(f"{name} {value:,.1f}" for name, value in row["values"].items())
        cells = [row["name"], f"{row['measured']:.3f}x", f"<= {row['wanted']}x"]
        lines.append([*cells, f"{detail} {row['unit']}"])
    return markdown(["what", "measured", "wanted", "of"], lines)


def parallel_table(rows: list[Row]) -> str:
    lines = [
        [r["name"], f"{r['one_ms']:.3g} ms", f"{r['two_ms']:.3g} ms", times(r["ratio"])]
        for r in rows
    ]
    return markdown(["program", "one core", "two cores", "gain"], lines)


def phased_table(rows: list[Row]) -> str:
    header = ["parameters", "tokens a step", "step", "computation", "moving the bytes"]
    header += ["step / larger of both", "waiting", "moved", "resident at most"]
    lines = [
        [
            r["name"],
            f"{r['tokens']:,}",
            f"{r['step_seconds']:.2f} s",
            f"{r['computing_seconds']:.2f} s",
            f"{r['moving_seconds']:.2f} s",
            times(r["ratio"]),
            f"{r['waiting_seconds']:.2f} s",
            f"{r['gigabytes_moved']:.1f} GB",
            f"{r['resident_mebibytes']:,.0f} MiB",
        ]
        for r in rows
    ]
    return markdown(header, lines)


# Section of the JSON -> title, the command that measures it, and its table.
TABLES: dict[str, tuple[str, str, Callable[[list[Row]], str]]] = {
    "table": ("Beside other frameworks", "./dev bench", peers_table),
    "models": ("Whole models", "./dev bench models", models_table),
    "torch": ("Modules of PyTorch", "./dev bench torch", models_table),
    "memory": ("What saving memory costs", "python -m benchmarks.memory", memory_table),
    "parallel": ("Two cores over one", "python -m benchmarks.parallel", parallel_table),
    "phased": ("Training from files", "python -m benchmarks.phased", phased_table),
    "phased_torch": (
        "Training modules of PyTorch from files",
        "python -m benchmarks.phased_torch",
        phased_table,
    ),
}


def shortfall(section: str, row: Row) -> str | None:
    """What a row misses, in words; None if nothing."""
    if section == "table":
        best, library = against_best(row), ratio(row["pando"], row["library_sum"])
        if best is not None and best < 1.0:
            return f"{times(best)} the best peer"
        if library is not None and library > LIBRARY_SUM_LIMIT:
            return f"{times(library)} the library sum"
    if section in ("models", "torch"):
        ratios = model_ratios(row)
        wanted = dict(WANTED_OF_MODELS)
        if section == "models" and row["mode"] == "train":
            wanted["memory"] = WANTED_TRAINING_MEMORY
        worse = {what: r for what, least in wanted.items() if (r := ratios[what]) and r < least}
        missed = ", ".join(f"{what} {times(r)}" for what, r in worse.items())
        return f"{missed} the best peer" if missed else None
    if section == "memory" and row["measured"] > row["wanted"]:
        return f"{row['measured']:.3f}x, wanted {row['wanted']}x"
    return None


def reason_for(section: str, name: str, reasons: dict[str, str]) -> str:
    for pattern, reason in reasons.items():
        if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(f"{section}:{name}", pattern):
            return reason
    raise SystemExit(f"{section}:{name} falls short: give the reason in docs/figure_reasons.toml")


def shortfalls(sections: Sections, reasons: dict[str, str]) -> str:
    parts = []
    for section, content in sections.items():
        missed = {row["name"]: shortfall(section, row) for row in content["rows"]}
        lines = [
            f"- `{name}`: {what}. {reason_for(section, name, reasons)}"
            for name, what in missed.items()
            if what is not None
        ]
        if lines:
            parts += [f"{TABLES[section][0]}:", "\n".join(lines)]
    return "\n\n".join(parts) or "None."


def performance_block(sections: Sections, reasons: dict[str, str]) -> str:
    parts = []
    for name, (title, command, table) in TABLES.items():
        if name in sections:
            section = sections[name]
            parts += [f"## {title}", f"`{command}`: {provenance(section)}", table(section["rows"])]
            if missing := section.get("missing"):
                parts.append(f"Not measured: {', '.join(f'`{one}`' for one in missing)}.")
    parts += ["## Rows that fall short", shortfalls(sections, reasons)]
    return "\n\n".join(parts)


def row_named(sections: Sections, section: str, name: str) -> Row | None:
    rows = sections.get(section, {"rows": []})["rows"]
    return next((row for row in rows if row["name"] == name), None)


def readme_block(sections: Sections) -> str:
    lines = []
    for name, what in (
        ("mlp/train/adam/b8", "tutorial network, Adam, batch 8: one training step"),
        ("mlp/infer/b8", "the same network, inference"),
        ("decoder/train/adam/b4", "GPT-2 style decoder of 25 M parameters: one training step"),
    ):
        row = row_named(sections, "table", name)
        if row is not None:
            eager = times(ratio(row["torch_eager"], row["pando"]))
            value = f"{eager} as fast as PyTorch eager, {times(against_best(row))} as the best peer"
            lines.append([what, value, "`./dev bench`"])
    row = row_named(sections, "memory", "recomputation memory")
    time_row = row_named(sections, "memory", "recomputation time")
    if row is not None and time_row is not None:
        value = f"{row['measured']:.2f}x the memory, {time_row['measured']:.2f}x the time"
        lines.append(
            ["recomputation, 24 transformer layers", value, "`python -m benchmarks.memory`"]
        )
    rows = sections.get("phased", {"rows": []})["rows"]
    if rows:
        row = rows[-1]
        value = f"{times(row['ratio'])} the larger of computation and bytes over the disk's rate"
        lines.append(
            [f"{row['name']} parameters, all in files", value, "`python -m benchmarks.phased`"]
        )
    table = markdown(["what", "Pando", "command"], lines)
    table = table.replace("---:", "---")
    return f"{table}\n\n{provenance(sections['table'])}"


def with_block(text: str, block: str, path: Path) -> str:
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path}: no block between '{BEGIN}' and '{END}'")
    return f"{head}{begin}\n{block}\n{end}{tail}"


def pages(root: Path) -> dict[Path, str]:
    """The pages as the JSON has them."""
    docs = root / "docs"
    sections = json.loads((docs / "figures.json").read_text())
    reasons = tomllib.loads((docs / "figure_reasons.toml").read_text())
    blocks = {
        root / "README.md": readme_block(sections),
        docs / "performance.md": performance_block(sections, reasons),
    }
    return {path: with_block(path.read_text(), block, path) for path, block in blocks.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    options = parser.parse_args()
    stale = {path: text for path, text in pages(options.root).items() if path.read_text() != text}
    if options.check:
        for path in stale:
            print(f"{path}: not what docs/figures.json says: run scripts/write_figures.py")
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
