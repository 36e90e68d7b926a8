"""Parts of Arrow expressions as the Python code that builds them: calls with options, literals, types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

OPERATORS = {
    "add_checked": "+",
    "subtract_checked": "-",
    "multiply_checked": "*",
    "divide_checked": "/",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and_kleene": "&",
    "or_kleene": "|",
}
# Options that pyarrow takes as words and Arrow stores as numbers.
_ROUND: tuple[str, ...] = (
    "down",
    "up",
    "towards_zero",
    "towards_infinity",
    "half_down",
    "half_up",
    "half_towards_zero",
)
_ROUND += ("half_towards_infinity", "half_to_even", "half_to_odd")
_SPANS = ("nanosecond", "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter")
_WORDS = {
    ("RoundOptions", "round_mode"): _ROUND,
    ("RoundToMultipleOptions", "round_mode"): _ROUND,
    ("RoundBinaryOptions", "round_mode"): _ROUND,
    ("RoundTemporalOptions", "unit"): (*_SPANS, "year"),
    ("StrptimeOptions", "unit"): ("s", "ms", "us", "ns"),
    ("AssumeTimezoneOptions", "ambiguous"): ("raise", "earliest", "latest"),
    ("AssumeTimezoneOptions", "nonexistent"): ("raise", "earliest", "latest"),
    ("Utf8NormalizeOptions", "form"): ("NFC", "NFKC", "NFD", "NFKD"),
    ("JoinOptions", "null_handling"): ("emit_null", "skip", "replace"),
    ("MapLookupOptions", "occurrence"): ("first", "last", "all"),
}
_TYPED = (("RoundToMultipleOptions", "multiple"), ("MapLookupOptions", "query_key"))  # of any type, so it is shown
_INFINITE = (float("inf"), -float("inf"))
_NEVER_INFERRED = pa.uint64()  # and numbers beyond int64 are refused when a type is inferred


def call(name: str, arguments: Sequence[str], kind: str, options: Mapping[str, pa.Scalar]) -> str:
    """The code that calls an Arrow function on the code of its arguments; ``kind`` is the class of its options."""
    if name in OPERATORS and len(arguments) == 2:
        left, right = arguments
        return f"({_expression(left)} {OPERATORS[name]} {right})"
    if name == "invert":
        return f"~{arguments[0]}"
    if name == "is_valid":
        return f"{arguments[0]}.is_valid()"
    if name == "is_in" and options["null_matching_behavior"].as_py() == 0:
        return f"{arguments[0]}.isin({_values(options['value_set'], plain=True)})"
    if name == "cast":
        loose = {value.as_py() for field, value in options.items() if field != "to_type"}
        if len(loose) == 1:
            return f"{arguments[0]}.cast({type_code(options['to_type'].type)}{', safe=False' if loose.pop() else ''})"
    if name == "is_null":
        return f"{arguments[0]}.is_null({'nan_is_null=True' if options['nan_is_null'].as_py() else ''})"
    named = [_option(kind, *option) for option in options.items() if option[1].is_valid or option[0] == "to_type"]
    given = [*map(_expression, arguments[:1]), *arguments[1:]]
    return f"pc.{name}({', '.join([*given, *filter(None, named)])})"


def _expression(code: str) -> str:
    """The code of a first argument, which tells pyarrow that expressions are meant."""
    return code if "sl.col(" in code or "pc.scalar(" in code else f"pc.scalar({code})"


def _option(kind: str, field: str, value: pa.Scalar) -> str:
    """The code of a named argument of a function; empty if it has the default value."""
    if words := _WORDS.get((kind, field)):
        return f"{field}={words[value.as_py()]!r}"
    if field == "value_set":
        return f"{field}={_values(value)}"
    if field == "null_matching_behavior" and value.as_py() < 2:
        return "skip_nulls=True" if value.as_py() else ""
    if field == "field_nullability" and all(value.as_py()):
        return ""
    if field == "field_metadata" and not any(value.as_py()):
        return ""
    if field == "field_ref":
        path = value.as_py()
        numbers = re.fullmatch(r"(\[\d+\])+", path)
        return f"indices={[*map(int, re.findall(r'[0-9]+', path))] if numbers else path!r}"
    if pa.types.is_integer(value.type) and (kind, field) not in _TYPED:
        return f"{field}={value.as_py()}"  # a C integer, of any width
    return f"{field}={literal(value)}"


def literal(value: pa.Scalar) -> str:
    """A literal as Python code, with its type if Arrow would infer another type."""
    if pa.types.is_temporal(value.type):
        return f"pa.scalar({_ticks(value)}, {type_code(value.type)})"
    shown = _shown(value.as_py())
    plain = value.type != _NEVER_INFERRED and pa.scalar(value.as_py()).type == value.type
    return shown if plain else f"pa.scalar({shown}, {type_code(value.type)})"


def exact_literal(value: pa.Scalar) -> str:
    """A literal as the code of an expression. Floats are cast to the type that they have: Arrow narrows no cast."""
    cast = ".cast('float64')" if pa.types.is_float64(value.type) else ""
    return f"pc.scalar({literal(value)}){cast}"


def decimal_literal(value: pa.Scalar) -> str:
    """As :func:`exact_literal`, with whole numbers as decimals."""
    whole = pa.types.is_integer(value.type) and value.is_valid
    return f"pc.scalar(pa.scalar(Decimal({value.as_py()})))" if whole else exact_literal(value)


def _shown(found: Any) -> str:
    return repr(found) if found == found and found not in _INFINITE else f"float('{found}')"


def _values(value: pa.Scalar, plain: bool = False) -> str:
    """The code of the values of a list; ``plain``: as a Python list, if Arrow infers their type from it."""
    inner: pa.DataType = value.type.value_type
    if pa.types.is_temporal(inner):
        return f"pa.array({[_ticks(one) for one in value.values]}, {type_code(inner)})"
    shown = f"[{', '.join(_shown(one.as_py()) for one in value.values)}]"
    plain = plain and inner != _NEVER_INFERRED and pa.array(value.as_py()).type == inner
    return shown if plain else f"pa.array({shown}, {type_code(inner)})"


def _ticks(value: pa.Scalar) -> Any:
    """A time as the number that Arrow stores."""
    return value.cast(pa.int32() if value.type.bit_width == 32 else pa.int64()).as_py() if value.is_valid else None


def type_code(type: pa.DataType, inside: bool = False) -> str:
    """A type's alias in quotes, or the call that makes it; with ``inside`` (part of another type) always a call."""
    t = pa.types
    if t.is_timestamp(type) and type.tz is not None:
        return f"pa.timestamp({type.unit!r}, {type.tz!r})"
    if t.is_decimal(type):
        return f"pa.{str(type).partition('(')[0]}({type.precision}, {type.scale})"
    if t.is_fixed_size_binary(type):
        return f"pa.binary({type.byte_width})"
    if t.is_fixed_size_list(type):
        return f"pa.list_({type_code(type.value_type, True)}, {type.list_size})"
    if t.is_list(type) or t.is_large_list(type):
        return f"pa.{'list_' if t.is_list(type) else 'large_list'}({type_code(type.value_type, True)})"
    if t.is_dictionary(type) and not type.ordered:
        return f"pa.dictionary({type_code(type.index_type)}, {type_code(type.value_type)})"
    return f"pa.type_for_alias({str(type)!r})" if inside else repr(str(type))
