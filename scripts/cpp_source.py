"""Finds functions and classes in C++ sources by their braces."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Comments, literals and preprocessor lines hold braces that mean nothing.
NOISE = re.compile(
    r'R"(?P<d>[^()\\ ]{0,16})\(.*?\)(?P=d)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
FUNCTION_NAME = re.compile(r"(operator\s*\S+?|[~\w:]+)\s*\(")
CLASS_HEADER = re.compile(
    r"\b(?<!enum )(?:class|struct|union)\s+(?:alignas\([^()]*\)\s*|\[\[[^\]]*\]\]\s*)*"
    r"(?P<name>[\w:]+)\s*(?:<[^{}]*>\s*)?(?:final\s*)?(?:(?<!:):(?!:)[^{}]*)?$"
)
TYPE_HEADER = re.compile(r"\b(namespace|class|struct|union|enum)\b[^()]*$")


def blank(match: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else " " for character in match[0])


def cpp_functions(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, last line) of every function body outside another function's body."""
    found = []
    text = NOISE.sub(blank, text)
    open_braces: list[tuple[str, int] | None] = []
    header_start = 0
    for at in (match.start() for match in re.finditer("[{};]", text)):
        inside_function = any(open_braces)
        if text[at] == "{":
            header = text[header_start:at]
            name = FUNCTION_NAME.search(header)
            opens_function = name and not TYPE_HEADER.search(header) and not inside_function
            start = header_start + len(header) - len(header.lstrip())
            open_braces.append((name[1], start) if name and opens_function else None)
        elif text[at] == "}" and open_braces:
            opened = open_braces.pop()
            if opened:
                first, last = (text.count("\n", 0, index) + 1 for index in (opened[1], at))
                found.append((opened[0], first, last))
        header_start = at + 1
    return found


def _closing(text: str, start: int) -> int:
    """Where the brace at `start` closes; the end of the text if it does not."""
    depth = 0
    for match in re.compile("[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def _declarations(text: str, start: int, end: int) -> Iterator[str]:
    """Each declaration between these braces of a class, without what stands in inner braces."""
    declaration, parentheses = "", 0
    while start < end:
        character = text[start]
        ends = character == ";"
        if character == "{":
            start = _closing(text, start)
            # A brace is not the end inside parentheses, nor in a list of initializers.
            ends = parentheses == 0 and not re.match(r"\s*[,{;]", text[start + 1 : end])
        elif not ends:
            declaration += character
            parentheses += (character == "(") - (character == ")")
        if ends:
            yield declaration
            declaration, parentheses = "", 0
        start += 1


NO_METHOD = re.compile(r"(using|friend|typedef|class|struct|enum|union|static_assert)\b")
NOT_WRITTEN = re.compile(r"=\s*(default|delete)\s*$")
POINTER_TO_FUNCTION = re.compile(r"\(\s*(\w+::)*\*\s*\w*\s*\)\s*\(")
# What says nothing about whether a declaration is a method, though it has parentheses or brackets.
PREFIXES = re.compile(
    r"\b(public|private|protected)\s*:(?!:)|\[\[[^\]]*\]\]|\balignas\s*\([^()]*\)"
)
OPERATOR = re.compile(r"\boperator\s*[-<>=]+")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")


def _is_method(declaration: str) -> bool:
    text, before = OPERATOR.sub("operator", PREFIXES.sub(" ", declaration)), ""
    while text != before:
        text, before = TEMPLATE_ARGUMENTS.sub("", text), text
    text = re.sub(r"^\s*template\b", "", text).strip()
    if NO_METHOD.match(text) or NOT_WRITTEN.search(text):
        return False
    head = text if "operator" in text else text.partition("=")[0]
    return "(" in head and not POINTER_TO_FUNCTION.search(head)


def cpp_classes(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, methods) of every class.

    Constructors, operators and overloads count one each; what is defaulted, deleted or of an inner
    class does not.
    """
    found = []
    text = NOISE.sub(blank, text)
    header_start = 0
    for at in (match.start() for match in re.finditer("[{};]", text)):
        header = CLASS_HEADER.search(text[header_start:at]) if text[at] == "{" else None
        if header:
            methods = sum(map(_is_method, _declarations(text, at + 1, _closing(text, at))))
            line = text.count("\n", 0, header_start + header.start()) + 1
            found.append((header["name"], line, methods))
        header_start = at + 1
    return found
