"""Specs as text: TOML whose entries are calls, as in ``hour = "tumbling('1h')"``.

An entry is parsed as Python syntax and never executed. It may use the constructors of this library, pyarrow's compute
functions and a few kinds of literals.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import operator
import re
import tomllib
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from os import PathLike
from pathlib import Path
from types import EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates import builtin, holistic, sketches
from slicing.aggregates.aggregate import Formula
from slicing.query import triggers, watermark
from slicing.system.arguments import says_arguments
from slicing.times.durations import Duration
from slicing.windows import builtin as between_edges
from slicing.windows import calendar
from slicing.windows.builtin import Window
from slicing.windows.rows import last_rows, marked, per_row, row_count


def _constructors(kind: type, *modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions of these modules that return a ``kind``, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_"):
                made = vars(module).get(value.__annotations__.get("return", ""))
                if isinstance(made, type) and issubclass(made, kind):
                    found[name] = value
    return found


WINDOWS = _constructors(Window, between_edges, calendar, row_count, per_row, last_rows, marked)
AGGREGATES = _constructors(Formula, builtin, holistic, sketches)
WATERMARKS = _constructors(watermark.Watermark, watermark)
TRIGGERS = _constructors(triggers.Trigger, triggers)
_EXAMPLES = {"tumbling": "tumbling('1m')", "count": "count()", "bounded": "bounded('10s')", "every": "every('1m')"}
_EXPRESSIONS: dict[str, Callable[..., Any]] = {"col": pc.field}
_LITERALS: dict[str, Callable[..., Any]] = {
    "float": float,
    "Decimal": Decimal,
    "pa.array": pa.array,
    "pa.scalar": pa.scalar,
    "pc.scalar": pc.scalar,
    "np.datetime64": np.datetime64,
    "datetime.datetime": datetime.datetime,
    "datetime.date": datetime.date,
    "datetime.time": datetime.time,
    "datetime.timedelta": datetime.timedelta,
    "datetime.timezone": datetime.timezone,
    "zoneinfo.ZoneInfo": zoneinfo.ZoneInfo,
}
_TYPES: tuple[str, ...] = ("binary", "dictionary", "large_list", "list_", "timestamp", "type_for_alias")
_TYPES += ("decimal32", "decimal64", "decimal128", "decimal256")  # the first two since pyarrow 19
_LITERALS |= {f"pa.{name}": getattr(pa, name) for name in _TYPES if hasattr(pa, name)}
_METHODS = ("where", "is_valid", "is_null", "is_nan", "isin", "cast")
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_KEYS: tuple[str, ...] = ("time", "processing_time", "by", "watermark", "allowed_lateness", "emit", "sequence", "idle")
_KEYS += ("on_null_time", "on_overflow", "op", "on_unmatched", "windows", "aggs", "trigger")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


# --- reading ----------------------------------------------------------------------------------------------------------


def entry(text: object, where: str, known: Mapping[str, Callable[..., Any]]) -> Any:
    """The window, aggregate or watermark that a call builds, such as ``tumbling('1m')``."""
    example = next(example for name, example in _EXAMPLES.items() if name in known)
    found = _read(text, where, known, example)
    if isinstance(found, str | int | float | pc.Expression | None):
        raise TypeError(f'{where} must be a call, such as "{example}"; got {text!r}')
    return found


def condition(text: object) -> pc.Expression:
    """The column expression in the text of ``where``, such as ``col('ms') > 100``."""
    example = "col('ms') > 100"
    found = _read(text, "where", {}, example)
    if not isinstance(found, pc.Expression):
        raise TypeError(f'where must be an expression of columns, such as "{example}"; got {text!r}')
    return found


def _read(text: object, where: str, known: Mapping[str, Callable[..., Any]], example: str) -> Any:
    if not isinstance(text, str):
        raise TypeError(f'{where} must be a call in quotes, such as "{example}"; got {text!r}')
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f'{where} must be a call, such as "{example}"; got {text!r}') from None
    try:
        return _Reader(known).read(tree)
    except (TypeError, ValueError, ArithmeticError, pa.ArrowException, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where} = {text!r}: {error}") from None


class _Reader:
    """Evaluates a syntax tree that uses the ``known`` constructors, columns and literals."""

    def __init__(self, known: Mapping[str, Callable[..., Any]]) -> None:
        self.known = {**known, **_EXPRESSIONS}

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value) if not isinstance(value, complex | EllipsisType):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.read(item) for item in items]
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](self.read(operand))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](self.read(left), self.read(right))
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](self.read(left), self.read(right))
            case ast.Attribute() if ast.unparse(node) == "datetime.timezone.utc":
                return datetime.UTC
            case ast.Call(func=function, args=args, keywords=keywords) if all(k.arg for k in keywords):
                call, names = self._called(function), [str(k.arg) for k in keywords]
                for name in names:
                    if names.count(name) > 1:
                        raise ValueError(f"{ast.unparse(function)} has got {name!r} twice")
                values = [self.read(k.value) for k in keywords]
                return call(*map(self.read, args), **dict(zip(names, values, strict=True)))
        raise ValueError(f"{ast.unparse(node)} is none of the calls, columns and values that a spec is written with")

    def _called(self, function: ast.expr) -> Callable[..., Any]:
        name = ast.unparse(function)
        plain = name.removeprefix("sl.")
        if plain in self.known:
            return says_arguments(self.known[plain])
        if name in _LITERALS:
            return _LITERALS[name]
        if name.startswith("pc.") and name[3:] in pc.list_functions() and hasattr(pc, name[3:]):
            found: Callable[..., Any] = getattr(pc, name[3:])
            return found
        if isinstance(function, ast.Attribute) and function.attr in _METHODS:
            of = self.read(function.value)
            if isinstance(of, pc.Expression | Formula) and hasattr(of, function.attr):
                method: Callable[..., Any] = getattr(of, function.attr)
                return method
        near = difflib.get_close_matches(plain, self.known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(self.known))}"
        raise ValueError(f"{name} is not known; {hint}")


def loaded(text: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """The content of TOML text or of a TOML file, which may have only the ``known`` keys."""
    if isinstance(text, PathLike):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            raise type(error)(f"the spec's file {str(text)!r} cannot be read: {error.strerror}") from None
    if not isinstance(text, str):
        raise TypeError(f"the spec must be TOML text, or the pathlib.Path of a file of it; got {text!r}")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        path = "; a file is given as pathlib.Path(...)" if "\n" not in text and text.endswith(".toml") else ""
        raise ValueError(f"the spec is no TOML: {error}{path}") from None
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"the spec has {key!r}, which is no part of one; {hint}")
    return found


def arguments(text: str | PathLike[str]) -> dict[str, Any]:
    """The arguments of a spec, from TOML."""
    found = loaded(text, _KEYS)
    for table, example in (("windows", "minute = \"tumbling('1m')\""), ("aggs", 'n = "count()"')):
        if not isinstance(found.get(table), dict):
            raise ValueError(f"the spec needs a table [{table}] with entries such as {example}")
    if ("time" in found) == (found.pop("processing_time", None) is True):
        raise ValueError('the spec needs either time = "column", or processing_time = true')
    found["windows"] = {name: entry(said, f"windows.{name}", WINDOWS) for name, said in found["windows"].items()}
    found["aggs"] = {name: entry(said, f"aggs.{name}", AGGREGATES) for name, said in found["aggs"].items()}
    if "watermark" in found:
        found["watermark"] = entry(found["watermark"], "watermark", WATERMARKS)
    if isinstance(said := found.get("trigger"), dict):
        found["trigger"] = {name: entry(of, f"trigger.{name}", TRIGGERS) for name, of in said.items()}
    elif said is not None:
        found["trigger"] = entry(said, "trigger", TRIGGERS)
    return found


# --- writing ----------------------------------------------------------------------------------------------------------


def toml(values: Mapping[str, Any]) -> str:
    """TOML of the arguments of a spec that are not None. Raises for what could not be read back unchanged."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict) or value is None:
            continue
        if isinstance(value, watermark.Watermark):
            value = call_text(value, name, WATERMARKS)
        elif isinstance(value, triggers.Trigger):
            value = call_text(value, name, TRIGGERS)
        elif isinstance(value, Duration):
            value = str(value)
        lines.append(f"{name} = {toml_value(value)}")
    for table, known in (("windows", WINDOWS), ("aggs", AGGREGATES), ("trigger", TRIGGERS)):
        if not isinstance(values.get(table), dict):
            continue
        entries = values[table].items()
        lines += ["", f"[{table}]"]
        lines += [
            f"{toml_key(name)} = {toml_value(call_text(item, f'{table}[{name!r}]', known))}" for name, item in entries
        ]
    return "\n".join(lines) + "\n"


def call_text(value: object, where: str, known: Mapping[str, Callable[..., Any]]) -> str:
    """The call that builds a value, without ``sl.``."""
    try:
        text = unprefixed(repr(value))
        if entry(text, where, known) == value:
            return text
    except (SyntaxError, TypeError, ValueError):
        pass
    raise ValueError(
        f"{where} is {value!r}, which no text can build: a spec with functions or classes of your own, or with objects "
        "of other libraries in it, is kept as Python code"
    )


def unprefixed(code: str) -> str:
    """A Python expression without ``sl.``."""
    return ast.unparse(_Unprefixed().visit(ast.parse(code, mode="eval")))


class _Unprefixed(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return ast.Name(node.attr) if isinstance(node.value, ast.Name) and node.value.id == "sl" else node


def toml_value(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return _string(str(value))


def toml_key(name: str) -> str:
    """A name as a TOML key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """A TOML string in double quotes."""
    if any(0xD800 <= ord(sign) < 0xE000 for sign in text):
        raise ValueError(f"{text!r} has half of a character, which TOML cannot hold")
    escaped = {sign: f"\\u{sign:04x}" for sign in (*range(32), 127)} | {ord(sign): f"\\{sign}" for sign in '"\\'}
    return f'"{text.translate(escaped)}"'
