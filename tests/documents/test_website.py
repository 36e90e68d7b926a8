"""What the site's pages are made of: examples of every window and aggregate, and other libraries' calls beside ours."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import slicing as sl
from slicing.query.written import AGGREGATES, WINDOWS
from website import coming, examples, links, releases


def test_every_window_has_an_example_that_prints() -> None:
    for name in WINDOWS:
        assert f"::: slicing.{name}" in examples.page(name, examples.window_code(name))


def test_every_public_name_is_on_a_page() -> None:
    spark_udfs = pytest.importorskip("spark_udfs")
    reference = (releases.CHANGELOG.parent / "docs" / "reference.md").read_text(encoding="utf-8")
    shown = [re.sub(r"\.(\w+)\.\1$", r".\1", name) for name in re.findall(r"^::: (\S+)$", reference, re.MULTILINE)]
    shown += [f"slicing.{name}" for name in (*WINDOWS, *AGGREGATES)]
    public = [f"slicing.{name}" for name in sl.__all__ if name not in ("col", "plot")]
    public += [f"slicing.plot.{name}" for name in sl.plot.__all__]
    public += [f"spark_udfs.{name}" for name in spark_udfs.__all__]
    assert sorted(shown) == sorted(public)


def test_aggregates_have_examples() -> None:
    for name in ("count", "argmax", "quantile", "all"):
        page = examples.page(name, examples.aggregate_code(name))
        assert f"sl.{name}(" in page
    assert set(examples.OF) <= set(AGGREGATES)


@pytest.mark.parametrize("name", [*coming.RUN, *coming.SHOWN])
def test_calls_beside_each_other_give_the_same(name: str) -> None:
    pytest.importorskip("duckdb")
    assert f"| {name} | slicing |" in coming.page(name)


def test_calls_that_differ_are_found() -> None:
    names: dict[str, object] = {}
    exec(coming.DATA, names)
    wrong = coming.Pair("a", 'df["v"]', 'windows(sl.whole(), x=sl.sum("v"))', ("found.tolist()", coming.OURS))
    with pytest.raises(AssertionError, match="a: df"):
        coming.compared(wrong, names)


def test_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.1.0] - 2026-12-01\n\n- one\n- two\n"
    assert releases.notes("0.1.0", text) == "- one\n- two\n"
    with pytest.raises(SystemExit, match=r"CHANGELOG.md has no part \[0.2.0\]; it has Unreleased, 0.1.0"):
        releases.notes("0.2.0", text)


def test_addresses_are_those_of_a_sentence() -> None:
    text = (
        "[a](https://a.org/x), (see https://b.org/y_(z)) and `https://c.org`. https://d.org/?q=1; http://example.com/"
    )
    assert links.addresses(text) == {"https://a.org/x", "https://b.org/y_(z)", "https://c.org", "https://d.org/?q=1"}


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *said: object) -> None:
        pass


def test_addresses_without_an_answer_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "page.md").write_text(f"[a]({at}/200) and [b]({at}/403)", encoding="utf-8")
    assert links.main(tmp_path, ["*.md"]) == 0
    (tmp_path / "other.md").write_text(f"[a]({at}/200) and [c]({at}/404).", encoding="utf-8")
    assert links.main(tmp_path, ["*.md"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "2 addresses, 0 without an answer"
    assert said[1].startswith(f"{at}/404 (other.md): 404 ") and said[2] == "3 addresses, 1 without an answer"
    server.shutdown()
    server.server_close()
