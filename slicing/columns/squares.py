"""Exact products of floats: two floats hold one product."""

from slicing.system.arrays import Floats

SQUARES = ("square", "square_lost")  # forms of a column (``slicing.cells.lanes.Feed``): the two floats of its squares
HALF = 2.0**27 + 1  # splits the digits of a float in two halves


def product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a * b, and the rounding error of it (Dekker's method); NaN if the product is too large for a float."""
    found = a * b
    (x, y), (u, v) = _halves(a), _halves(b)
    lost: Floats = ((x * u - found) + x * v + y * u) + y * v
    return found, lost


def _halves(a: Floats) -> tuple[Floats, Floats]:
    wide = HALF * a
    upper = wide - (wide - a)
    return upper, a - upper
