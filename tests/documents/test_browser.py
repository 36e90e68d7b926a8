"""In a real browser: the five pictures, and three pages of the site as ``make docs`` builds it, show their marks."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

import vl_convert
from matplotlib.image import imread
from test_plot import READINGS, SPEC, marks, marks_of, of_batch, stream

import slicing as sl
from slicing.query.written import AGGREGATES, WINDOWS
from website import coming

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
LOOK = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser, such as Debian's chromium, which pip has not: looked for {', '.join(NAMES)}"
)
FILL = re.compile(
    r'<path [^>]*roledescription="(?:rect mark|bar)"[^>]* fill="#(\w{6})"[^>]*?(?: opacity="([\d.]+)")?/?>'
)
FEWEST = 100  # pixels of a color


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make docs`` builds, elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


def seen(page: Path, picture: Path) -> tuple[str, np.ndarray]:
    """What the browser has made of a page, and its picture of it."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,3200"]
    command += ["--allow-file-access-from-files", "--virtual-time-budget=20000", f"--user-data-dir={picture.parent}/b"]
    command += [f"--screenshot={picture}", "--dump-dom", page.as_uri()]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert picture.exists(), done.stderr[-2000:]
    return done.stdout, np.rint(imread(picture)[..., :3] * 255).astype(np.int64)


def colors(svg: str) -> set[tuple[int, int, int]]:
    """Those of boxes and bars, as they are on white."""
    found = set()
    for color, opacity in FILL.findall(svg):
        share = float(opacity or 1)
        found.add(tuple(round(share * int(color[at : at + 2], 16) + (1 - share) * 255) for at in (0, 2, 4)))
    return found


PAGES = {
    "index": (["slices.svg"], "aggregates event streams over time windows"),
    "concepts": (["slices.svg", "progress.svg", "lateness.svg"], "Which delay for the watermark?"),
    "windows/session": (["windows/session.svg"], "2026-01-01 09:01:00"),
}


def test_the_site_has_a_page_for_each_window_aggregate_and_neighbour(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert pages >= {"index.html", "concepts.html", "guide.html", "releases.html", "reference.html"}
    assert pages >= {f"windows/{name}.html" for name in WINDOWS} | {f"aggregates/{name}.html" for name in AGGREGATES}
    assert pages >= {f"notebooks/{path.stem}.html" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert pages >= {f"coming/{name.lower()}.html" for name in (*coming.RUN, *coming.SHOWN)}


def test_names_in_docstrings_have_no_marks_for_editors(site: Path) -> None:
    pages = (path for path in site.rglob("*.html") if re.search(r":(?:attr|class|func|meth|mod):", path.read_text()))
    assert not [path.name for path in pages]


def test_the_reference_has_no_methods_for_the_library_alone(site: Path) -> None:
    page = (site / "reference.html").read_text(encoding="utf-8")
    methods = set(re.findall(r'<h3 id="slicing\.Spec\.(\w+)"', page))
    assert methods == {"columns", "fingerprint", "from_toml", "to_toml"}


@LOOK
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_its_text_and_pictures(name: str, site: Path, tmp_path: Path) -> None:
    pictures, text = PAGES[name]
    made, pixels = seen(site / f"{name}.html", tmp_path / "page.png")
    assert text in html.unescape(re.sub(r"<[^>]*>", "", made))
    for picture in pictures:
        wanted = colors((site / picture).read_text(encoding="utf-8"))
        assert wanted
        for color in wanted:
            near = (np.abs(pixels - np.array(color)) <= 2).all(axis=2)
            assert np.count_nonzero(near) >= FEWEST, (picture, color)


def charts() -> dict[str, object]:
    batches, outputs = stream()
    return {
        "timeline": sl.plot.timeline(READINGS, SPEC),
        "progress": sl.plot.progress(outputs, data=batches),
        "results": sl.plot.results(sl.aggregate(READINGS, SPEC)),
        "lateness": sl.plot.lateness(iter(batches), "at", bounds=["0s", "5m", "30m"]),
        "query": sl.plot.query(SimpleNamespace(recentProgress=[of_batch(0), of_batch(1), of_batch(2)])),
    }


@LOOK
def test_the_five_pictures_have_their_marks(tmp_path: Path) -> None:
    drawn = charts()
    assert set(drawn) == set(sl.plot.__all__)
    told = {name: chart.to_dict() for name, chart in drawn.items()}
    places = "".join(f'<div id="{name}"></div><!-- end -->' for name in told)
    calls = "".join(
        f"vegaEmbed('#{name}', {json.dumps(spec)}, {{renderer: 'svg', actions: false}});" for name, spec in told.items()
    )
    page = tmp_path / "pictures.html"
    script = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    calls = calls.replace("</", "<\\/")
    page.write_text(
        f'<html><head><meta charset="utf-8"></head><body>{places}<script type="module">{script}</script>'
        f'<script type="module">{calls}</script></body></html>',
        encoding="utf-8",
    )
    made, pixels = seen(page, tmp_path / "pictures.png")
    for name, chart in drawn.items():
        part = made.partition(f'<div id="{name}"')[2].partition("<!-- end -->")[0]
        assert marks_of(part) == marks(chart), name
        assert sum(marks_of(part).values()) > 2
        for color in colors(part):
            assert np.count_nonzero((np.abs(pixels - np.array(color)) <= 2).all(axis=2)) >= FEWEST, (name, color)
