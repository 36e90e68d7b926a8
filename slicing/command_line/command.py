"""The command line: ``slicing aggregate``, ``explain``, ``warm`` and ``demo``.

Windows and aggregates are written as in a spec's TOML, ``m="tumbling('1m')"``, or shorter, ``m=tumbling:1m``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from slicing.api import aggregate
from slicing.columns.paths import files_of
from slicing.columns.sources import batches
from slicing.columns.types import decoded
from slicing.columns.wanted import ALL, Wanted
from slicing.command_line import demo
from slicing.command_line.warm import warm
from slicing.explain import explain
from slicing.query.spec import Spec
from slicing.query.written import AGGREGATES, WINDOWS, entry

_EXAMPLES = """\
examples:
  slicing aggregate 'data/*.parquet' --time ts --by sensor --window m=tumbling:1m --agg n=count --out windows.parquet
  slicing aggregate log.csv --time at --window hour=sliding:1h,every=15m --agg 'slow=count().where(col("ms") > 100)'
  slicing aggregate data.parquet --spec query.toml
"""
_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv"}
_ENDINGS |= dict.fromkeys((".arrow", ".ipc", ".feather"), "arrow")
_NAMED = re.compile(r"([^=:(]+)=(.+)", re.DOTALL)
_SHORT = re.compile(r"(\w+)(?::(.*))?", re.DOTALL)
_WORDS: dict[str, object] = {"true": True, "false": False, "none": None}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, without usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 if the demonstration finds an error, 2 if a request is refused."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 2
    try:
        status: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TypeError, ValueError, OSError, ArithmeticError, ImportError, pa.ArrowException) as error:
        if os.environ.get("SLICING_TRACEBACK"):
            raise
        print(f"slicing {options.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="slicing",
        description="Aggregate event data over time windows.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stream-slicing {sys.modules['slicing'].__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    def command(name: str, what: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=what[0].lower() + what[1:], description=f"{what}.")
        found.set_defaults(run=run)
        return found

    one = command("aggregate", "Compute the windows of files", _aggregate)
    one.add_argument("data", nargs="+", help="paths, globs or folders of Parquet, CSV, Arrow IPC or Feather files")
    _add_query(one)
    one.add_argument("--out", metavar="FILE", help="a .parquet, .csv, .tsv, .arrow or .feather file (else CSV here)")
    one.add_argument("--between", nargs=2, metavar=("START", "END"), help="only rows with START <= time < END")
    one.add_argument("--layout", choices=("long", "wide"), default="long", help="wide: a column for each window")
    one.add_argument("--progress", action="store_true", help="show on standard error how many rows were read")
    one.add_argument("--threads", type=int, default=1, help="threads that share the rows (default: 1)")

    one = command("explain", "Say what a query keeps, what bounds it, how it is answered", _explain)
    one.add_argument("data", nargs="*", help="files whose columns have the query's types")
    _add_query(one)
    one.add_argument("--toml", action="store_true", help="write the query as TOML instead, for --spec")

    one = command("warm", "Compile kernels ahead of the first query, and keep them on disk", _warm)
    one.add_argument("spec", nargs="?", help="query.toml, or a sl.Spec as package.module:NAME; without it, common ones")
    one.add_argument("sample", nargs="?", help="a file with some thousand rows of the query's data")

    one = command("demo", "Run a stream in this process, with its windows and what they cost", demo.show)
    demo.add_arguments(one)
    return parser


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", metavar="FILE", help="the query as TOML (Spec.to_toml), instead of the options below")
    parser.add_argument("--time", metavar="COLUMN", help="the time column")
    parser.add_argument("--by", metavar="COLUMN", action="append", help="a key column (may be given several times)")
    parser.add_argument(
        "--window", metavar="NAME=CALL", action="append", help="such as m=tumbling:1m or h=sliding:1h,every=15m"
    )
    parser.add_argument(
        "--agg", metavar="NAME=CALL", action="append", help="such as n=count, p99=quantile:ms,0.99 or \"r=sum('a')/2\""
    )
    parser.add_argument("--sequence", metavar="COLUMN", help="a column that orders rows of equal time")


# --- commands ---------------------------------------------------------------------------------------------------------


def _aggregate(options: argparse.Namespace) -> int:
    write = _writer(options.out)
    _check_kept(options.data, options.out)
    spec = _query(options)
    between = options.between and tuple(None if word in ("", "-") else _value(word) for word in options.between)
    arguments = {"threads": options.threads, "layout": options.layout, "progress": options.progress}
    write(aggregate(options.data, spec, between=between, **arguments))
    return 0


def _explain(options: argparse.Namespace) -> int:
    _check_stdout()
    spec = _query(options)
    if options.toml:
        print(spec.to_toml(), end="")
        return 0
    schema = next(batches(options.data, Wanted(spec.columns()))).schema if options.data else None
    print(explain(spec, schema))
    return 0


def _warm(options: argparse.Namespace) -> int:
    import numba

    if (options.spec is None) != (options.sample is None):
        raise ValueError("a spec needs a sample of its data: slicing warm query.toml sample.parquet")
    if options.spec is None:
        took = warm()
    else:
        took = warm(_named_spec(options.spec), pa.Table.from_batches(batches(options.sample, ALL)))
    where = numba.config.CACHE_DIR or "their own folders"
    print(f"kernels are compiled, in {took:.1f} s, and kept in {where}")
    return 0


# --- queries ----------------------------------------------------------------------------------------------------------


def _query(options: argparse.Namespace) -> Spec:
    given = [name for name in ("time", "by", "window", "agg", "sequence") if getattr(options, name) is not None]
    if options.spec is not None:
        if given:
            raise ValueError(f"--spec has the whole query, and --{given[0]} was given as well; use one of the two")
        return _from_file(options.spec)
    for name, example in (("time", "--time ts"), ("window", "--window m=tumbling:1m"), ("agg", "--agg n=count")):
        if name not in given:
            raise ValueError(f"--{name} is missing, such as {example}; or give the query as --spec FILE.toml")
    windows = _entries(options.window, "--window", WINDOWS, "m=tumbling:1m")
    aggs = _entries(options.agg, "--agg", AGGREGATES, "n=count")
    return Spec(options.time, windows, aggs, by=options.by or [], sequence=options.sequence)


def _from_file(path: str) -> Spec:
    try:
        return Spec.from_toml(Path(path))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _named_spec(name: str) -> Spec:
    """A spec from a TOML file or from a module."""
    if name.endswith(".toml"):
        return _from_file(name)
    module, _, variable = name.partition(":")
    sys.path.insert(0, "")
    found = getattr(importlib.import_module(module), variable, None)
    if not isinstance(found, Spec):
        raise ValueError(f"{name!r} must be a file that ends in .toml, or a sl.Spec as package.module:NAME")
    return found


def _entries(
    given: Sequence[str], option: str, known: Mapping[str, Callable[..., Any]], example: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        match = _NAMED.fullmatch(text)
        if match is None:
            raise ValueError(f"{option} must be NAME=CALL, such as {example}; got {text!r}")
        name = match[1].strip()
        if name in found:
            raise ValueError(f"{option} has the name {name!r} twice; each needs a name of its own")
        found[name] = entry(_long(match[2]), f"{option} {name}", known)
    return found


def _long(text: str) -> str:
    """``sliding:1h,every=15m`` as ``sliding('1h', every='15m')``; text that is already a call is unchanged."""
    match = _SHORT.fullmatch(text.strip())
    if match is None or (match[2] is None and "(" in text):
        return text
    words = [word.strip() for word in (match[2] or "").split(",") if word.strip()]
    return f"{match[1]}({', '.join(map(_argument, words))})"


def _argument(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={_value(value)!r}" if equals else repr(_value(word))


def _value(word: str) -> object:
    """A number, true, false or none; otherwise the text itself."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(word)
    return word


# --- results ----------------------------------------------------------------------------------------------------------


def _writer(path: str | None) -> Callable[[pa.Table], None]:
    """A function that writes a table. Raises before anything is computed if the ending does not say the format."""
    if path is None:
        _check_stdout("; write --out windows.parquet")
        return lambda table: _write_csv(table, sys.stdout.buffer, ",")
    if os.path.isdir(path):
        raise ValueError(f"--out must be a file; {path!r} is a folder")
    format = _ENDINGS.get(os.path.splitext(path)[1].lower())
    if format is None:
        raise ValueError(f"--out must end in {', '.join(_ENDINGS)}, which says the format; got {path!r}")
    path = os.path.realpath(path)  # a symbolic link stays
    if not os.path.isdir(folder := os.path.dirname(path)):
        raise ValueError(f"--out is in the folder {folder!r}, which does not exist")

    def write(table: pa.Table) -> None:
        part = f"{path}.{os.getpid()}.part"  # written completely or not at all
        try:
            with open(part, "wb") as file:
                _FORMATS[format](table, file)
            os.replace(part, path)
        finally:
            with suppress(FileNotFoundError):
                os.remove(part)

    return write


def _check_stdout(advice: str = "") -> None:
    if sys.stdout is None:
        raise ValueError(f"standard output is closed, so that nothing can be printed{advice}")


def _check_kept(data: Sequence[str], out: str | None) -> None:
    """Raise if ``out`` is a file of the data, which it would replace."""
    if out is None or not os.path.exists(out):
        return
    for path in data:
        system, _, files = files_of(path)
        for file in files if isinstance(system, fs.LocalFileSystem) else ():
            if os.path.samefile(file, out):
                raise ValueError(f"--out {out!r} would replace the file {file!r} of the data; name another file")


def _write_csv(table: pa.Table, file: Any, delimiter: str) -> None:
    from pyarrow import csv

    for name, column in zip(table.column_names, table.columns, strict=True):
        nested = pa.types.is_nested(column.type)
        if nested or not _has_text(column):
            which = "" if nested else " with values that are not UTF-8"
            raise ValueError(
                f"column {name!r} has type {column.type}{which}, which CSV cannot hold; write --out windows.parquet"
            )
    csv.write_csv(table, file, csv.WriteOptions(delimiter=delimiter, quoting_style="needed"))


def _has_text(column: pa.ChunkedArray) -> bool:
    """Whether bytes are UTF-8; other columns always have a text."""
    type = decoded(column.type)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type):
        try:
            column.cast(pa.large_string())
        except pa.ArrowInvalid:
            return False
    return True


def _write_parquet(table: pa.Table, file: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file)


def _write_arrow(table: pa.Table, file: Any) -> None:
    with pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


_FORMATS: dict[str, Callable[[pa.Table, Any], None]] = {
    "parquet": _write_parquet,
    "csv": lambda table, file: _write_csv(table, file, ","),
    "tsv": lambda table, file: _write_csv(table, file, "\t"),
    "arrow": _write_arrow,
}
