"""Products of floats, exactly: two floats hold one."""

from slicing.system.arrays import Floats

SQUARES = ("square", "square_lost")  # forms of a column (``slicing.cells.lanes.Feed``): the two floats of its squares
HALF = 2.0**27 + 1  # of the digits of a float


def product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a * b, and what rounding took from it (Dekker's); NaN where a float does not hold the product."""
    found = a * b
    (x, y), (u, v) = _halves(a), _halves(b)
    lost: Floats = ((x * u - found) + x * v + y * u) + y * v
    return found, lost


def _halves(a: Floats) -> tuple[Floats, Floats]:
    wide = HALF * a
    upper = wide - (wide - a)
    return upper, a - upper
