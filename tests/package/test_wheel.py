"""README runs on the wheel, with the oldest and the newest versions; another package ``slicing`` is told."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

import pytest
from quick_spark import LIGHT

from slicing.system import mixed

ROOT = Path(__file__).parents[2]


def ran(*command: object, **env: str) -> str:
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    told = {"text": True, "capture_output": True, "timeout": 300, "env": known | env}
    done = subprocess.run([str(part) for part in command], cwd="/", **told)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = f"import os; os.chdir({str(ROOT)!r}); from hatchling.build import build_wheel as b; b({str(folder)!r})"
    ran(sys.executable, "-c", build)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module", params=["newest", "oldest"])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has the wheel, and either what pip chooses by the lower bounds, or the
    packages that these tests run with: those ``make`` has installed already."""
    if request.param == "oldest" and sys.version_info >= (3, 13):
        pytest.skip("the oldest numpy is built for Python 3.11 and 3.12")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", "--no-input"]
    if request.param == "newest":
        ran(*pip, "--no-deps", wheel)
        here = ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        others = sysconfig.get_path("purelib")  # what is editable there stays out: it is a .pth file itself
        Path(here, "others.pth").write_text(others, encoding="utf-8")
        return python
    try:
        ran(*pip, "-c", ROOT / "constraints-oldest.txt", f"stream-slicing[spark] @ {wheel.as_uri()}")
    except AssertionError as error:
        if "CI" in os.environ or "No matching distribution" not in str(error):
            raise
        pytest.skip(f"pip reaches no index of packages: {str(error).strip().splitlines()[-1]}")
    return python


def test_the_quickstart_runs_on_the_wheel(installed: Path) -> None:
    """The module and the command are those of the wheel, and no part of the checkout is missed."""
    assert ran(installed, "-c", "import slicing; print(slicing.__file__)").startswith(str(installed.parents[1]))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block, shown = readme.split("```python\n")[1].split("```\n\n```text\n")[:2]
    assert ran(installed, "-c", block) == shown.split("```")[0]
    query = ["--time", "t", "--window", "w=tumbling:5", "--agg", "n=count"]
    toml = ran(installed, "-m", "slicing", "explain", "--toml", *query)
    assert 'w = "tumbling(5)"' in toml


ON_SPARK = """
import datetime, sys
import slicing as sl
from spark_udfs.local import session

spark = session("local[1]")
start = datetime.datetime(2026, 1, 1, 9)
rows = [(start + datetime.timedelta(seconds=20 * n), "ab"[n % 2], float(n)) for n in range(60)]
schema = "ts timestamp, sensor string, value double"
spec = sl.Spec("ts", {"six": sl.tumbling("6m")}, {"n": sl.count()}, by="sensor", watermark=sl.bounded("2m"))
for part in (rows[:40], rows[40:]):  # the second run goes on from the checkpoint of the first
    spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(sys.argv[1] + "/in")
    stream_df = spark.readStream.schema(schema).parquet(sys.argv[1] + "/in")
    SNIPPET
    spark.streams.active[0].processAllAvailable()
    spark.streams.active[0].stop()
print(sorted((row["sensor"], row["n"]) for row in spark.read.parquet(sys.argv[1] + "/tables/windows").collect()))
"""


@pytest.mark.parametrize("installed", ["oldest"], indirect=True)
def test_the_snippet_for_spark_runs_on_the_wheel(installed: Path, tmp_path: Path) -> None:
    """With Spark's and Hadoop's own defaults: other tests have settings by which local files cost less. The other Spark
    tests run with the newest versions."""
    snippet = (ROOT / "README.md").read_text(encoding="utf-8").split("## On Spark\n\n```python\n")[1].split("```")[0]
    for folder in ("checkpoints", "tables"):
        snippet = snippet.replace(f'"/{folder}/', f'"{tmp_path}/{folder}/')
    snippet = snippet.replace("partitions=8", "partitions=1")
    program = ON_SPARK.replace("    SNIPPET\n", textwrap.indent(snippet, "    "))
    told = ran(installed, "-c", program, tmp_path, SPARK_SUBMIT_OPTS=LIGHT)
    assert told == "[('a', 9), ('a', 9), ('b', 9), ('b', 9)]\n"


def test_files_of_another_package_of_the_name_are_told(tmp_path: Path) -> None:
    package = tmp_path / "slicing" / "__init__.py"
    package.parent.mkdir()
    mixed.refuse_other(str(package))
    (tmp_path / "stream_slicing-0.1.0.dist-info").mkdir()
    mixed.refuse_other(str(package))
    mixed.refuse_other("/a.zip/slicing/__init__.py")
    (tmp_path / "slicing-0.0.3.dist-info").mkdir()
    with pytest.raises(ImportError, match=r"of the unrelated package 'slicing' of PyPI \(slicing-0.0.3.dist-info\)"):
        mixed.refuse_other(str(package))
