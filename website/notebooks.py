"""Notebooks as pages: their cells with the outputs that they are kept with, which a test keeps fresh."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks"


def pages() -> dict[str, str | bytes]:
    """Markdown and pictures by path."""
    found: dict[str, str | bytes] = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        parts: list[str] = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(text.replace("](../docs/", "](../"))
                continue
            parts.append(f"```python\n{text}\n```")
            for output in cell["outputs"]:
                data = output.get("data", {})
                if "image/png" in data:
                    name = f"{path.stem}-{len(found)}.png"
                    found[f"notebooks/{name}"] = b64decode(data["image/png"])
                    parts.append(f"![What the code above draws]({name})")
                else:
                    parts.append(f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```")
        found[f"notebooks/{path.stem}.md"] = "\n\n".join(parts) + "\n"
    return found
