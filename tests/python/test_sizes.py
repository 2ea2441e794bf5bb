"""What scripts/check_sizes.py says of files, functions and classes."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def check_sizes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("check_sizes")


def faults(
    check_sizes: ModuleType, text: str, exceptions: str = "", path: str = "pando/a.hpp"
) -> list[str]:
    measured = check_sizes.sizes(Path(path), text)
    found: list[str] = check_sizes.faults(measured, check_sizes.read_exceptions(exceptions))
    return found


def class_of(methods: int, name: str = "A") -> str:
    return f"class {name} {{\n" + "  void f();\n" * methods + "};\n"


def test_small_things_are_no_fault(check_sizes: ModuleType) -> None:
    function = "int f() {\n" + "  g();\n" * 58 + "}\n"
    text = class_of(25) + function
    assert faults(check_sizes, text + "\n" * (500 - text.count("\n"))) == []


def test_a_file_and_a_function_are_too_long(check_sizes: ModuleType) -> None:
    function = "int f() {\n" + "  g();\n" * 59 + "}\n"
    text = function + "\n" * (501 - function.count("\n"))
    assert faults(check_sizes, text) == [
        "pando/a.hpp: pando/a.hpp has 501 lines, the limit is 500: split it, or give the reason as"
        " 'pando/a.hpp: ...' in scripts/size_exceptions.txt",
        "pando/a.hpp:1: f has 61 lines, the limit is 60: split it, or give the reason as"
        " 'pando/a.hpp f: ...' in scripts/size_exceptions.txt",
    ]
    assert (
        faults(check_sizes, text, "# why\npando/a.hpp: a table\n\npando/a.hpp f: a switch\n") == []
    )


def test_a_class_has_too_many_methods(check_sizes: ModuleType) -> None:
    text = "namespace pando {\n" + class_of(3, "B") + class_of(26) + "}\n"
    assert faults(check_sizes, text) == [
        "pando/a.hpp:7: A has 26 methods, the limit is 25: split it, or give the reason as"
        " 'pando/a.hpp class A = 26: ...' in scripts/size_exceptions.txt",
    ]
    assert faults(check_sizes, text, path="tests/cpp/a.hpp") == []


@pytest.mark.parametrize(
    ("exception", "fault"),
    [
        ("= 28", ""),
        (
            "= 27",
            "pando/a.hpp:1: A has 28 methods, 27 are allowed in scripts/size_exceptions.txt:"
            " split it",
        ),
        (
            "= 29",
            "scripts/size_exceptions.txt: A has 28 methods: write 'pando/a.hpp class A = 28: ...'",
        ),
        (
            "",
            "scripts/size_exceptions.txt: A has 28 methods: write 'pando/a.hpp class A = 28: ...'",
        ),
    ],
)
def test_what_is_allowed_only_falls(check_sizes: ModuleType, exception: str, fault: str) -> None:
    line = f"pando/a.hpp class A {exception}".strip() + ": large\n"
    assert faults(check_sizes, class_of(28), line) == ([fault] if fault else [])


def test_an_exception_that_nothing_needs_is_a_fault(check_sizes: ModuleType) -> None:
    lines = "pando/a.hpp: large\npando/a.hpp class A = 26: large\n"
    assert faults(check_sizes, class_of(25), lines) == [
        "scripts/size_exceptions.txt: 'pando/a.hpp' is not too large",
        "scripts/size_exceptions.txt: 'pando/a.hpp class A' is not too large",
    ]


def test_an_exception_has_a_reason(check_sizes: ModuleType) -> None:
    with pytest.raises(SystemExit, match="needs ': ' and a reason"):
        check_sizes.read_exceptions("pando/a.hpp:\n")


@pytest.mark.parametrize(
    ("declaration", "methods"),
    [
        ("A();", 1),
        ("explicit A(int x) : x_{x}, y_(x) {}", 1),
        ("~A() {}", 1),
        ("A(const A&) = delete; A& operator=(const A&) = delete; A() = default;", 0),
        ("void f(); void f(int x); void f(std::function<void(int)> g) const;", 3),
        ("private: [[nodiscard]] virtual int f(A a = {}, B b = B{1}) const noexcept = 0;", 1),
        ("template <class T, int n = 2> T f() { if (n) { g(); } return {}; }", 1),
        ("bool operator<(const A& a) const; A* operator->(); T operator()(int) { return 1; };", 3),
        ("bool operator==(const A&) const = default;", 0),
        ("friend bool operator==(const A& a, const A& b) { return a.f(b); }", 0),
        (
            "template <class T> friend bool operator==(const A& a, const T& b) { return f(a, b); }",
            0,
        ),
        ("friend class B; using C = int(int); static_assert(f(1)); typedef int (*D)(int);", 0),
        ("std::function<int(int)> f; int x = g(1); int y{g(1)}; alignas(64) int z;", 0),
        ("int (*f)(int) = nullptr; int (B::*g)(int);", 0),
        ("struct B { void f(); void g(); }; enum class C { D }; void f();", 1),
        ("// void f();\n/* void g(); */ const char* s = \"void f();\"; char c = '(';", 0),
        ("#define F(x) f(x)\nint x;", 0),
    ],
)
@pytest.mark.parametrize(
    "header", ["class A", "struct alignas(64) A final : B<int>, n::C", "class A<int>"]
)
def test_what_a_method_is(
    check_sizes: ModuleType, header: str, declaration: str, methods: int
) -> None:
    found = check_sizes.cpp_classes(f"int f() {{}}\n{header} {{\n{declaration} }};\nvoid g();\n")
    assert ("A", 2, methods) in found


def test_classes_inside_others_are_found(check_sizes: ModuleType) -> None:
    text = (
        "class A {\n  struct B {\n    void f();\n  };\n  void g() {\n    struct C { void h(); };\n"
    )
    assert check_sizes.cpp_classes(
        text + "  }\n  void i();\n};\nclass D;\nenum class E { F };\n"
    ) == [
        ("A", 1, 2),
        ("B", 2, 1),
        ("C", 6, 1),
    ]
