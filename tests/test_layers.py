"""Imports go one way: a room knows only those below it (the table of CONTRIBUTING.md)."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Rooms of one line may know each other; folders are rooms as a whole.
LAYERS = [
    ["kernels"],
    ["system"],
    ["columns"],
    ["slices"],
    ["decide", "durations", "user_functions"],
    ["measure"],
    ["calendars"],
    ["windows"],
    ["aggregates"],
    ["watermark"],
    ["spec"],
    ["plan"],
    ["batch"],
    ["places"],
    ["lift"],
    ["reduce"],
    ["store"],
    ["answers"],
    ["kept_rows"],
    ["state"],
    ["admit", "close", "hot", "output", "snapshot", "split"],
    ["operator", "partials", "replan"],
    ["api", "explain", "__main__"],
    ["attach"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def _imports(tree: ast.Module) -> set[str]:
    """The rooms a module imports when it is loaded (not inside functions, not for type checkers alone)."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ImportFrom(module="slicing", names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module)) if module.startswith("slicing."):
                found.add(module.split(".")[1])
            case ast.Import(names=names):
                found |= {name.name.split(".")[1] for name in names if name.name.startswith("slicing.")}
    return found


def test_every_room_has_its_layer_and_imports_only_those_below():
    wrong, seen = [], set()
    for path in sorted((ROOT / "slicing").rglob("*.py")):
        room = path.relative_to(ROOT / "slicing").parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        seen.add(room)
        for other in _imports(ast.parse(path.read_text())) - {room}:
            if LEVEL[other] > LEVEL[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert not wrong
    assert seen == set(LEVEL)


def test_only_spark_udfs_knows_spark():
    for path in (ROOT / "slicing").rglob("*.py"):
        source = path.read_text()
        assert "import pyspark" not in source and "from pyspark" not in source and "spark_udfs" not in source, path
