"""The documentation site: `./dev docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

project = "Pando"
author = "the Pando authors"
release = re.findall(r"VERSION ([\d.]+) LANG", (ROOT / "CMakeLists.txt").read_text())[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["conftest.py"]
html_theme = "furo"
html_title = f"Pando {release}"
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

# Our own names must be found; the documents of other libraries are not at hand, type variables and
# what is private have no place in ours.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!pando\.|pando_demo\.|popart\.|popdist\.|poptorch\.|popxl\.|popxl_addons\.).*"),
    ("py:.*", r".*(\._\w|\.typing_\.).*"),
    ("py:.*", r".*\.(Tree|Leaf|Key|Value|Item|Self|Instrumented)"),
    # Parts of a class that has files of its own for them.
    (
        "py:class",
        r"popxl\.tensor_operators\.TensorOperators|popxl_addons\.module_state\.ModuleState",
    ),
]

# Headings can be linked to.
myst_heading_anchors = 3

# In docstrings, single backticks are code.
default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Prompts and outputs are not copied with an example.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Names that modules import for type checkers only.
autodoc_type_aliases = {
    "Module": "popxl_addons.module.Module",
    "ReplicaGrouping": "popxl.ReplicaGrouping",
}


def _escaped(line: str) -> str:
    """The line with what would be markup outside of backticks taken literally."""
    parts = line.split("`")
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", parts[index])
    return "`".join(parts)


def _plain_text_to_markup(
    app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text with code in backticks and in indented blocks before `Args:`."""
    result: list[str] = []
    in_text = True
    for line in lines:
        in_text = in_text and line not in ("Args:", "Returns:", "Raises:", "Yields:", "Attributes:")
        is_code = in_text and line.startswith("    ")
        if is_code and not result[-1]:
            previous = next(text for text in reversed(result) if text)
            if not previous.startswith("    "):
                result += ["::", ""]
        is_variadic = re.match(r" +\*+\w+:", line)
        result.append(line if is_code or is_variadic else _escaped(line))
    lines[:] = result


def setup(app: Any) -> None:
    """Called by Sphinx. Napoleon, which reads the sections, comes after this."""
    app.connect("autodoc-process-docstring", _plain_text_to_markup, priority=100)
