"""What mkdocs builds beside the pages of docs/: the start page, a page a window, aggregate and notebook, tables that
were run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from mkdocs.structure.files import File  # noqa: E402

from website import coming, examples, notebooks, releases  # noqa: E402

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)")

ROLE = re.compile(r":(?:class|func|meth):(?=<code>)")


def on_files(files: Any, config: Any) -> Any:
    pages = examples.pages()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
        picture = examples.picture(Path(path).stem)
        files.append(File.generated(config, path.replace(".md", ".svg"), content=picture))
    for path, content in notebooks.pages().items():
        files.append(File.generated(config, path, content=content))
    for folder in ("windows", "aggregates"):
        names = sorted(path for path in pages if path.startswith(folder))
        lines = "".join(f"- [`{Path(path).stem}`]({Path(path).name})\n" for path in names)
        files.append(File.generated(config, f"{folder}/index.md", content=f"# {folder.capitalize()}\n\n{lines}"))
    for name in (*coming.RUN, *coming.SHOWN):
        files.append(File.generated(config, f"coming/{name.lower()}.md", content=coming.page(name)))
    config.nav = [_with_pages(entry, files) for entry in config.nav]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=readme))
    files.append(File.generated(config, "releases.md", content=releases.page()))
    return files


def _with_pages(entry: dict[str, Any], files: Any) -> dict[str, Any]:
    """An entry of the navigation, a folder as the pages in it."""
    ((title, pages),) = entry.items()
    if isinstance(pages, str) and pages.endswith("/"):
        found = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(pages))
        pages = sorted(found, key=lambda path: not path.endswith("/index.md"))
    return {title: pages}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files of the repository that are no pages become plain text."""
    return LINK.sub(lambda match: match[0] if _is_page(match[2], page, files) else match[1], markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Names that docstrings mark for editors, as in :func:`slicing.aggregate`, without their mark."""
    return ROLE.sub("", html)


def _is_page(target: str, page: Any, files: Any) -> bool:
    here = (ROOT / "docs" / Path(page.file.src_uri)).parent
    inside = (here / target).resolve()
    try:
        path = inside.relative_to((ROOT / "docs").resolve()).as_posix()
    except ValueError:
        return False
    return files.get_file_from_path(path) is not None
