"""Plain text tables: one run, and two runs side by side."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.cases import FRAMEWORKS, PEERS

JsonRow = dict[str, Any]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(numerator: float | None, denominator: float | None) -> str:
    if numerator is None or denominator is None or denominator <= 0:
        return "-"
    return f"{numerator / denominator:.2f}x"


def _fastest_peer(row: JsonRow) -> str | None:
    measured = [name for name in PEERS if row.get(name) is not None]
    return min(measured, key=lambda name: row[name]) if measured else None


def _best_peer(row: JsonRow) -> float | None:
    peer = _fastest_peer(row)
    return None if peer is None else row[peer]


def align(header: list[str], lines: list[list[str]]) -> str:
    """First column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]

    def one(line: list[str]) -> str:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([one(header), rule, *map(one, lines)])


def render(rows: list[JsonRow]) -> str:
    """Medians, and how many times faster Pando is than eager and the best peer."""
    header = ["program", "unit", *FRAMEWORKS, "eager/pando", "best peer/pando"]
    header += ["pando/library sum", "pando/lower bound"]
    lines = [
        [
            row["name"],
            row["unit"],
            *(_number(row[name]) for name in FRAMEWORKS),
            _ratio(row["torch_eager"], row["pando"]),
            _ratio(_best_peer(row), row["pando"]),
            _ratio(row["pando"], row["library_sum"]),
            _ratio(row["pando"], row["lower_bound"]),
        ]
        for row in rows
    ]
    return align(header, lines)


def render_ops(rows: list[JsonRow]) -> str:
    """Single operations beside PyTorch eager by size, medians over sizes, the geometric mean."""
    ratios = {
        row["name"]: row["torch_eager"] / row["pando"]
        for row in rows
        if row["torch_eager"] is not None and row["pando"] is not None
    }
    by_operation: dict[str, list[float]] = {}
    for name, ratio in ratios.items():
        by_operation.setdefault(name.rsplit("/", 1)[0], []).append(ratio)
    medians = {name: statistics.median(values) for name, values in by_operation.items()}
    lines = [
        [
            row["name"],
            row["unit"],
            _number(row["pando"]),
            _number(row["torch_eager"]),
            _ratio(row["torch_eager"], row["pando"]),
        ]
        for row in rows
    ]
    text = align(["operation", "unit", "pando", "torch_eager", "eager/pando"], lines)
    if ratios:
        mean = statistics.geometric_mean(list(ratios.values()))
        slowest = min(ratios, key=lambda name: ratios[name])
        slowest_operation = min(medians, key=lambda name: medians[name])
        lines = [
            [name, f"{median:.2f}x", f"{min(by_operation[name]):.2f}x"]
            for name, median in sorted(medians.items(), key=lambda item: item[1])
        ]
        text += "\n\n" + align(["operation", "median over sizes", "slowest size"], lines)
        text += (
            f"\n\ngeometric mean {mean:.2f}x; slowest operation (median over sizes) "
            f"{slowest_operation} {medians[slowest_operation]:.2f}x; "
            f"slowest row {slowest} {ratios[slowest]:.2f}x"
        )
    return text


def model_ratios(row: JsonRow) -> dict[str, float]:
    """Time, memory and time to the first step of the fastest peer over those of Pando."""
    peer = _fastest_peer(row)
    if peer is None or row["pando"] is None:
        return {}
    measured = {
        "time": row,
        "memory": row["added_mebibytes"],
        "first step": row["first_step_seconds"],
    }
    return {what: found[peer] / found["pando"] for what, found in measured.items()}


def render_models(rows: list[JsonRow]) -> str:
    """Pando beside the fastest peer of every row; geometric means of training and of inference."""
    header = ["model", "unit", "pando", "MiB", "first step s", "best peer", "its time"]
    header += [f"peer/pando {what}" for what in ("time", "memory", "first step")]
    lines = []
    for row in rows:
        peer, ratios = _fastest_peer(row), model_ratios(row)
        lines.append(
            [
                row["name"],
                row["unit"],
                _number(row["pando"]),
                _number(row["added_mebibytes"].get("pando")),
                _number(row["first_step_seconds"].get("pando")),
                peer or "-",
                _number(row[peer]) if peer else "-",
                *(_ratio(ratios.get(what), 1.0) for what in ("time", "memory", "first step")),
            ]
        )
    text = align(header, lines)
    for mode, title in (("train", "training"), ("infer", "inference")):
        found = [r for r in (model_ratios(row) for row in rows if row["mode"] == mode) if r]
        if found:
            means = {what: statistics.geometric_mean([r[what] for r in found]) for what in found[0]}
            shown = ", ".join(f"{what} {mean:.2f}x" for what, mean in means.items())
            text += f"\n\ngeometric means of {title}: {shown}"
    return text


def render_against(rows: list[JsonRow]) -> str:
    """Pando beside the Pando of another checkout: above 1.00x is faster than before."""
    lines = [
        [
            row["name"],
            row["unit"],
            _number(row.get("before")),
            _number(row.get("pando")),
            _ratio(row.get("before"), row.get("pando")),
            f"{max(row['spread'].values(), default=0.0):.0%}",
        ]
        for row in rows
    ]
    text = align(["program", "unit", "before", "now", "before/now", "spread"], lines)
    ratios = [
        row["before"] / row["pando"] for row in rows if row.get("before") and row.get("pando")
    ]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        text += f"\n\ngeometric mean {mean:.2f}x, least {min(ratios):.2f}x"
    return text


def render_notes(rows: list[JsonRow]) -> str:
    """The variants chosen and the reasons for empty cells, without repeating equal ones."""
    seen: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for framework, note in row["notes"].items():
            seen.setdefault((framework, note), []).append(row["name"])
    return "\n".join(f"{who}: {note} ({', '.join(names)})" for (who, note), names in seen.items())


def compare(old: list[JsonRow], new: list[JsonRow]) -> str:
    """Old over new per framework: above 1.00x is faster than before."""
    before = {row["name"]: row for row in old}
    after = {row["name"]: row for row in new}
    header = ["program", "unit", "pando old", "pando new", *(f"{n} old/new" for n in FRAMEWORKS)]
    lines = [
        [
            name,
            row["unit"],
            _number(before[name]["pando"]),
            _number(row["pando"]),
            *(_ratio(before[name][framework], row[framework]) for framework in FRAMEWORKS),
        ]
        for name, row in after.items()
        if name in before
    ]
    text = align(header, lines)
    for title, names in (
        ("only in the old file", [n for n in before if n not in after]),
        ("only in the new file", [n for n in after if n not in before]),
    ):
        if names:
            text += f"\n{title}: {', '.join(names)}"
    return text
