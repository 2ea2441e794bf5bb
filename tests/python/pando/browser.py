"""A real browser for tests of HTML pages."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

BROWSER = next((b for b in map(shutil.which, ("chromium", "google-chrome", "chrome")) if b), None)


def evaluate(page: str, script: str, folder: Path) -> Any:
    """Shows a page and returns the value of a JavaScript expression in it, by way of JSON."""
    assert BROWSER is not None
    file = folder / "page.html"
    ending = f"""<script>
const found = document.createElement("pre");
found.id = "found";
found.textContent = JSON.stringify({script});
document.body.append(found);
</script>"""
    file.write_text(page.replace("</body>", f"{ending}</body>"), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
    command += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    # What is loaded before the interpreter, a sanitizer, is not for the browser.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    shown = subprocess.run(
        [*command, "--dump-dom", file.as_uri()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    match = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert match is not None, shown[-2000:]
    return json.loads(html.unescape(match[1]))
