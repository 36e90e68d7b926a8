"""README.md shows what happens: its Python blocks run, in order, and print what is shown below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_python_blocks_print_what_is_shown() -> None:
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    ran = 0
    for (language, source), (shown, expected) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, f"README.md, Python block {ran + 1}", "exec"), names)
        assert printed.getvalue() == (expected if shown == "text" else "")
        ran += 1
    assert ran >= 3, "README.md lost its Python blocks"


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert targets and not missing
