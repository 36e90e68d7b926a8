"""python -m asv_benchmarks.papers FIGURE ...: a paper's figure, run again here.

Prints each figure's tables, and what the paper states beside what this run found. Without a name it lists the figures.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from asv_benchmarks.papers.catalogue import FIGURES
from asv_benchmarks.papers.figure import Effort, report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.papers", description=__doc__)
    parser.add_argument("figure", nargs="*", help="figures by name; 'all' for all of them")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work, and do answers agree?")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the median, least and most are shown (5)")
    parser.add_argument("--threads", default="1,2", help="degrees of parallelism of scotty-22 (1,2)")
    parser.add_argument("--draw", metavar="FOLDER", help="write an SVG of each figure into this folder")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if not given.figure:
        for figure in FIGURES.values():
            print(f"{figure.name:18} {figure.title} ({figure.paper})")
        return 0
    names = list(FIGURES) if given.figure == ["all"] else given.figure
    for name in names:
        if name not in FIGURES:
            parser.error(f"no figure is named {name!r}; there are {', '.join(FIGURES)}")
    threads = tuple(int(count) for count in given.threads.split(","))
    effort = Effort(given.quick, 1 if given.quick else given.runs, threads)
    pa.set_cpu_count(1)
    print(
        f"{platform.machine()}, Python {platform.python_version()}; one thread each, median of {effort.runs} runs "
        "(least–most); times are CPU time where nothing else is said\n"
    )
    for name in names:
        start = time.perf_counter()
        outcome = FIGURES[name].run(effort)
        print("\n".join(report(FIGURES[name], outcome)), flush=True)
        print(f"\n({time.perf_counter() - start:.0f} s in all)\n", flush=True)
        if given.draw:
            from asv_benchmarks.papers.drawing import draw

            print(f"drawn: {draw(FIGURES[name], outcome, Path(given.draw))}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
