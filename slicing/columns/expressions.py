"""Columns computed from others: pyarrow expressions as names, which print as the code that builds them.

A pyarrow expression cannot be hashed or taken apart. Its serialized form can: the metadata of its schema lists calls,
fields and literals in order, and its one row holds the literals and the options of calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice, product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.casts import plain
from slicing.columns.expression_code import OPERATORS, call, decimal_literal, exact_literal, literal

Token = tuple[str, str]


class Derived(str):
    """The name of a column that an expression computes: the code that builds the expression.

    Two expressions have equal names only if they are equal, including the types of their literals.
    """

    __slots__ = ("_computing", "_in_decimals", "expression", "fields")
    expression: pc.Expression
    _computing: pc.Expression  # the same with Python's floats in 64 bits, which Arrow computes with
    _in_decimals: pc.Expression | None  # also with whole numbers as decimals of as many digits as they have
    fields: tuple[str, ...]  # the columns that it reads

    def __new__(cls, expression: pc.Expression) -> Derived:
        _, (serialized,) = expression.__reduce__()
        code, fields, exact, in_decimals = _read(serialized.to_pybytes())
        self = super().__new__(cls, code)
        self.expression, self.fields = expression, fields
        self._computing = expression if exact is None else eval(exact, _NAMES)
        self._in_decimals = None if in_decimals is None else eval(in_decimals, _NAMES)
        return self

    def computing(self, schema: pa.Schema) -> pc.Expression:
        """The expression that computes over columns of these types. Arrow takes a whole number as one of 19 digits,
        which decimals may have no room for."""
        if self._in_decimals is None:
            return self._computing
        types = tuple([schema.field(name).type for name in self.fields if name in schema.names])
        needs_room = any(map(pa.types.is_decimal, types)) and _compares_decimals() and _needs_room(self, types)
        return self._in_decimals if needs_room else self._computing

    def __repr__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Derived, (self.expression,)


def as_derived(expression: pc.Expression, argument: str) -> Derived:
    """An expression of columns as the name of the column that it computes."""
    try:
        return Derived(expression)
    except pa.ArrowException as error:
        raise ValueError(
            f"{argument} must be an expression of columns by their names; got {expression} ({error})"
        ) from None


def column_or_derived(expression: pc.Expression, argument: str) -> str:
    """The name of the column that an expression refers to, or computes."""
    found = as_derived(expression, argument)
    if not found.fields:
        raise ValueError(f"{argument} must be computed from columns, such as sl.col('x') * 2; got {expression}")
    if " == null[null])" in str(expression) or " != null[null])" in str(expression):
        raise ValueError(
            f"{argument} compares with None, which is neither true nor false for any row; use "
            f"sl.col('x').is_null() or ~sl.col('x').is_null(); got {expression}"
        )
    return found.fields[0] if found == f"sl.col({found.fields[0]!r})" else found


def computed(batch: pa.RecordBatch, wanted: Sequence[Derived]) -> list[pa.Array]:
    """The columns that expressions compute from a batch, in one pass."""
    from pyarrow import acero  # the import takes 10 ms

    names = list(dict.fromkeys(name for derived in wanted for name in derived.fields))
    source = pa.Table.from_arrays([_decoded(batch.column(name)) for name in names], names)
    expressions = [derived.computing(source.schema) for derived in wanted]
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(source)),
        acero.Declaration("project", acero.ProjectNodeOptions(expressions, _numbered(len(wanted)))),
    ]
    found = acero.Declaration.from_sequence(steps).to_table(use_threads=False)
    return [_whole(column, batch.num_rows) for column in found.columns]


@lru_cache(1)
def _compares_decimals() -> bool:
    """Whether Arrow finds 3.00 equal to the decimal 3: version 18 does not, in an expression."""
    table = pa.table({"x": pa.array([Decimal("3.00")])})
    return bool(table.filter(pc.field("x") == pc.scalar(pa.scalar(Decimal(3)))).num_rows)


@lru_cache(1024)
def _needs_room(derived: Derived, types: tuple[pa.DataType, ...]) -> bool:
    """Whether an expression can be computed over columns of these types, only if its whole numbers are decimals."""

    def can(expression: pc.Expression) -> bool:
        try:
            pa.Table.from_arrays([pa.nulls(1, type) for type in types], derived.fields).filter(expression.is_valid())
        except (pa.ArrowException, ValueError):
            return False
        return True

    assert derived._in_decimals is not None
    return not can(derived._computing) and can(derived._in_decimals)


def fields_of(name: str) -> tuple[str, ...]:
    """The input columns of a column: itself, unless it is computed."""
    return name.fields if isinstance(name, Derived) else (name,)


class CannotCompute(ValueError):
    """An expression cannot be computed; the message has the reason and a remedy."""

    def __init__(self, derived: Derived, error: Exception, types: pa.Schema) -> None:
        self.derived = derived
        text = str(error).partition("\n")[0]
        one = f"sl.col({derived.fields[0]!r})"
        whole = next((n for n in derived.fields if pa.types.is_integer(types.field(n).type)), derived.fields[0])
        as_number = "" if pa.types.is_integer(types.field(whole).type) else ".cast('int64')"
        rounded = (
            "; integers are computed as floats here, which are exact only in this range: cast them, such as "
            f"sl.col({whole!r}){as_number}.cast('float64', safe=False), which rounds beyond 2**53"
        )
        in_rows = "; an expression is computed row by row: ask for what needs several rows as an aggregate"
        wide = any(types.field(name).type in (pa.int64(), pa.uint64()) for name in derived.fields)
        wider = ".cast('float64')" if wide else ".cast('int64'), or 'float64'"
        cures = {
            "non-scalar": in_rows,  # before others: its text shows options of casts
            "MetaFunction": in_rows,
            "divide by zero": "; pc.divide(a, b) gives inf for floats: cast integers, such as "
            f"sl.col({whole!r}).cast('float64')",
            "overflow": f": the type of its columns is too narrow; compute in a wider one, such as {one}{wider}",
            "recision": f"; cast to decimals of fewer digits, or to floats, such as {one}.cast('float64')",
            "to 16777216": rounded,
            "to 9007199254740992": rounded,
            "not in range": f"; cast to a type that holds these numbers, such as {one}.cast('float64', safe=False)",
        }
        if any(pa.types.is_timestamp(types.field(n).type) for n in derived.fields):
            moment = (
                "; compare times with datetime(2026, 3, 1), or datetime(2026, 3, 1, tzinfo=UTC) if they have a zone"
            )
            cures |= {"no kernel matching": moment, "without timezone": moment}
        cure = next((cure for part, cure in cures.items() if part in text), "")
        super().__init__(f"{derived} cannot be computed: {text}{cure}")


def all_computed(batch: pa.RecordBatch, wanted: Sequence[Derived]) -> list[pa.Array]:
    """Like ``computed``; the error names the expression that cannot be computed."""
    try:
        return computed(batch, wanted)
    except pa.ArrowException:
        for derived in wanted:
            try:
                computed(batch, [derived])
            except pa.ArrowException as error:
                raise CannotCompute(derived, error, batch.schema) from None
        raise


def types_of(types: Mapping[str, pa.DataType], wanted: Sequence[Derived]) -> dict[str, pa.DataType]:
    """The types of the columns that expressions compute from columns of these types."""
    none = pa.RecordBatch.from_arrays([pa.nulls(0, type) for type in types.values()], names=list(types))
    return {name: column.type for name, column in zip(wanted, all_computed(none, wanted), strict=True)}


_LOOSE = pa.float64(), pa.int64(), pa.bool_()  # from the most common type to the strictest
_LIKELY = pa.float64(), pa.string(), pa.bool_()
_POSSIBLE = (*_LIKELY, pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.binary())
_MOST_TRIED = 5000  # 0.1 ms each


def likely_columns(
    wanted: Iterable[tuple[str, pa.DataType]], fixed: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Likely types of the input columns, if they, or expressions computed from them, are read as the types ``wanted``.

    ``fixed`` are the types that are known. If a column is read as several types, the strictest is taken.
    """
    types, expressions = dict(fixed), []
    for name, type in wanted:
        if isinstance(name, Derived):
            expressions.append((name, type))
        elif name not in fixed and _LOOSE.index(type) >= _LOOSE.index(types.get(name, _LOOSE[0])):
            types[name] = type
    for derived, type in expressions:
        types |= _fitting(derived, type, types, fixed)
    return types


def _fitting(
    derived: Derived, wanted: pa.DataType, known: Mapping[str, pa.DataType], fixed: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Types of the input columns with which an expression can be computed, and gives a boolean if that is wanted."""
    first = {name: known.get(name, _LOOSE[0]) for name in derived.fields}
    free = {name for name, type in first.items() if name not in fixed and not pa.types.is_boolean(type)}

    def tried(others: Sequence[pa.DataType]) -> Iterator[tuple[pa.DataType, ...]]:
        return product(*[dict.fromkeys((type, *others)) if name in free else (type,) for name, type in first.items()])

    for found in islice(chain(tried(_LIKELY), tried(_POSSIBLE)), _MOST_TRIED):
        types = dict(zip(derived.fields, found, strict=True))
        try:
            (type,) = types_of(types, [derived]).values()
        except CannotCompute:
            continue
        if pa.types.is_boolean(type) or not pa.types.is_boolean(wanted):
            return types
    return first


def _numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _decoded(column: pa.Array) -> pa.Array:
    """The column as Arrow functions take it: few of them accept dictionaries, views or run-end encoded columns."""
    column = plain(column)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _whole(column: pa.ChunkedArray, size: int) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if size else pa.nulls(0, column.type)


@lru_cache(1024)
def _read(serialized: bytes) -> tuple[str, tuple[str, ...], str | None, str | None]:
    """An expression's code, and the columns that it reads. Takes 26 us, and 3 us from the cache.

    Also the code of the same expression with floats in 64 bits, None if it has no floats. Arrow takes a float that fits
    32 bits as such, and then computes with integers in 32 bits, too: 199 / 100.0 is 1.99000001. And the code with whole
    numbers as decimals, None if it has none."""
    tree = _Tree(serialized)
    exact = _Tree(serialized, exact_literal).code if tree.has_floats else None
    in_decimals = _Tree(serialized, decimal_literal).code if tree.has_integers else None
    return tree.code, tuple(dict.fromkeys(tree.fields)), exact, in_decimals


class _Code:
    """What code of expressions calls ``sl``."""

    @staticmethod
    def col(*path: str) -> pc.Expression:
        return pc.field(*path)


_NAMES = {"sl": _Code(), "pc": pc, "pa": pa, "Decimal": Decimal}


class _Tree:
    """Parses an expression into its code and the columns that it reads."""

    def __init__(self, serialized: bytes, shown: Callable[[pa.Scalar], str] = literal) -> None:
        """``shown``: the code of a literal."""
        self._shown, self.has_floats, self.has_integers = shown, False, False
        reader = pa.ipc.open_file(serialized)
        self._row = reader.get_batch(0)
        self.fields: list[str] = []
        tokens = _metadata(reader.schema)
        self.code = self._part(tokens, *next(tokens))
        if tokens_end := next(tokens, None):
            raise pa.ArrowInvalid(f"an expression goes on with {tokens_end!r}")
        if self.code.startswith("(") and self._last in OPERATORS:
            self.code = self.code[1:-1]

    def _part(self, tokens: Iterator[Token], kind: str, value: str) -> str:
        """The code of the part that begins with this token."""
        if kind == "literal":
            number = self._row.column(int(value))[0]
            self.has_floats |= pa.types.is_float64(number.type)
            self.has_integers |= pa.types.is_integer(number.type)
            return self._shown(number)
        if kind == "field_ref":
            self.fields.append(value)
            return f"sl.col({value!r})"
        if kind == "nested_field_ref":
            path = [next(tokens)[1] for _ in range(int(value))]
            self.fields.append(path[0])
            return f"sl.col({', '.join(map(repr, path))})"
        if kind != "call":
            raise pa.ArrowInvalid(f"an expression has a part {kind!r}, which is not known")
        arguments: list[str] = []
        options: dict[str, pa.Scalar] = {}
        kind = ""
        for inner, number in tokens:
            if inner == "end":
                break
            if inner == "options":
                found = self._row.column(int(number))[0]
                options = {field.name: found[field.name] for field in found.type}
                kind = options.pop("_type_name").as_py().decode()
            else:
                arguments.append(self._part(tokens, inner, number))
        self._last = value
        return call(value, arguments, kind, options)

    _last = ""  # the last call that was read, which is the outermost one at the end


class _CSchema(ctypes.Structure):
    """Arrow's C data interface."""

    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


def _metadata(schema: pa.Schema) -> Iterator[Token]:
    """A schema's metadata in order, including repeated keys; ``schema.metadata`` keeps only the last of these."""
    exported = _CSchema()
    schema._export_to_c(ctypes.addressof(exported))
    try:
        at, found = exported.metadata, []

        def number() -> int:
            nonlocal at
            value, at = ctypes.c_int32.from_address(at).value, at + 4
            return value

        def text() -> str:
            nonlocal at
            size = number()
            value, at = ctypes.string_at(at, size).decode(), at + size
            return value

        for _ in range(number()):
            key = text()
            found.append((key, text()))
    finally:
        exported.release(ctypes.addressof(exported))
    return iter(found)
