"""Imports go one way: a room knows only those below it (the table of CONTRIBUTING.md), and there is no circle,
also in spark_udfs.

Every import counts: those inside functions, and those for type checkers alone, too.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, SPARK = ROOT / "slicing", ROOT / "spark_udfs"

# Rooms of one line may know each other; folders are rooms as a whole.
LAYERS = [
    ["kernels"],
    ["system"],
    ["output"],
    ["columns"],
    ["cells"],
    ["times"],
    ["windows"],
    ["aggregates"],
    ["query"],
    ["reducing"],
    ["storage"],
    ["closing"],
    ["kept_rows"],
    ["lifecycle"],
    ["triggers"],
    ["stages"],
    ["push"],
    ["pushes"],
    ["operator"],
    ["exchange", "joins", "tables"],
    ["streams"],
    ["api", "explain", "rollup"],
    ["beside", "command_line", "plot"],
    ["pandas", "polars", "__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in (PACKAGE, SPARK)
    for path in sorted(package.rglob("*.py"))
}


@cache
def imported(module: str) -> set[str]:
    """The modules of both packages that a module imports, wherever it does."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*up, *([node.module] if node.module else [])])
            found |= {f"{source}.{n.name}" if f"{source}.{n.name}" in MODULES else source for n in node.names}
    return {name for name in found if name in MODULES and name != module}


def circles(known: dict[str, set[str]]) -> list[str]:
    """Modules that know each other: what is left when those that know nobody who is left are taken out, both ways."""
    left = dict(known)
    while True:
        pointed = {name for names in left.values() for name in names}
        done = {name for name, names in left.items() if not names & left.keys() or name not in pointed}
        if not done:
            return sorted(left)
        left = {name: names for name, names in left.items() if name not in done}


def test_every_room_has_its_layer_and_imports_only_those_below() -> None:
    wrong, seen = [], set()
    for module in MODULES:
        if not module.startswith("slicing."):
            continue
        room = module.split(".")[1]
        seen.add(room)
        others = {name.split(".")[1] for name in imported(module) - {"slicing"}} - {room}
        wrong += [f"{module} imports {other}" for other in sorted(others) if LEVEL[other] > LEVEL[room]]
    assert not wrong
    assert seen == set(LEVEL)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles({module: imported(module) for module in MODULES}) == []


def test_imports_are_seen_wherever_they_are() -> None:
    assert "slicing.query.plan" in imported("slicing.storage.store")
    assert "slicing.kernels.combine" in imported("slicing.query.partials")
    assert {"spark_udfs.plans", "spark_udfs.stages", "spark_udfs.types"} <= imported("spark_udfs.api")
    assert {"slicing", "spark_udfs", "spark_udfs.local"} <= imported("spark_udfs.__main__")
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == ["a", "b", "c"]


def test_only_spark_udfs_knows_spark() -> None:
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        assert "import pyspark" not in source and "from pyspark" not in source and "spark_udfs" not in source, path
