"""The small helpers."""

from __future__ import annotations

import logging

import pytest

from popxl_addons import performance_utils, utils
from popxl_addons.utils import OrderedDict, duplicate_items, overrides, suffix_graph_name, timer


def test_ordered_dict() -> None:
    items = OrderedDict([("b", 1), ("a", 2)])
    assert items.idx(0) == 1 and items.idx(-1) == 2
    assert repr(items) == "{\nb: 1,\na: 2,\n}"
    assert repr(OrderedDict()) == "{}"


def test_suffix_graph_name() -> None:
    assert suffix_graph_name("Linear_subgraph(0)_bwd", "recomp") == "Linear_bwd_recomp"
    assert suffix_graph_name("a_subgraph(1)_subgraph(23)", "x") == "a_x"


def test_duplicates_come_in_the_order_of_their_first_appearance() -> None:
    assert duplicate_items("abcbca") == ["a", "b", "c"]
    assert duplicate_items([1, 2]) == []


def test_overrides() -> None:
    class Base:
        def method(self) -> None:
            pass

    class Same(Base):
        pass

    class Other(Base):
        def method(self) -> None:
            pass

    assert [overrides(cls, Base, "method") for cls in (Base, Same, Other)] == [False, False, True]


def test_timer_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        with timer("Work"):
            pass
        with timer(), utils.null_context():
            pass
    assert caplog.messages == ["Starting Work", "Work duration: 0.00 mins", "Duration: 0.00 mins"]


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (900, "nearest3", "0.900E+03"),
        (64, "nearest3", "64.000E+00"),
        (1234567, "nearest3", "1.235E+06"),
        (1234567, "G", "0.001E+09"),
        (5000, "K", "5.000E+03"),
        (0, "nearest3", "0.000E+00"),
    ],
)
def test_scientific_numbers(value: float, form: str, text: str) -> None:
    assert performance_utils.format_flops_scientific(value, form) == text


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="'nearest3'"):
        performance_utils.format_flops_scientific(1, "other")
    with pytest.raises(ValueError, match="'type' or 'flat'"):
        performance_utils.print_FLOPs({"TOT": 0}, mode="other")


BREAKDOWN = {
    "Add": {100: 10, 103: 30},
    "Call_101(f_subgraph(0))": {"MatMul": {102: 60}, "TOT": 60},
    "TOT": 100,
}


def test_tables_of_operations(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(mode: str) -> list[list[str]]:
        performance_utils.print_FLOPs(BREAKDOWN, mode)
        lines = capsys.readouterr().out.strip().splitlines()
        return [[cell.strip() for cell in line.split("|")] for line in lines if "|" in line]

    assert rows("type") == [
        ["Op Type", "FLOPs", "%"],
        ["MatMul", "60.000E+00", "60.0"],
        ["Add", "40.000E+00", "40.0"],
    ]
    assert rows("flat") == [
        ["Op Type", "FLOPs", "Op Name"],
        ["MatMul", "60.000E+00", "Call_101(f_subgraph(0))/MatMul_102"],
        ["Add", "30.000E+00", "Add_103"],
        ["Add", "10.000E+00", "Add_100"],
        ["TOT", "0.100E+03", ""],
    ]
