"""How a query is run, where there is a choice: never what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.kernels.strategies import STRATEGIES
from slicing.slices.combining import NAMES
from slicing.spec import Spec


@dataclass(frozen=True)
class Policy:
    """How a query is run."""

    combine: str = "auto"  # how slices become windows
    threads: int = 1  # that share the rows of large pushes
    max_windows_per_push: int | None = None  # None: however many a flush gives


ADDED = ("count", "sum", "mean")  # aggregates that read nothing of a lane but what can be removed from it


def checked(name: object, spec: Spec) -> str:
    """The name of a strategy; refuses one that cannot answer the spec, whatever the types of its columns."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"combine must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}; got {name!r}")
    if name in STRATEGIES and STRATEGIES[name].removes:
        for agg, asked in ((name, part) for name, formula in spec.aggs.items() for part in formula.parts()):
            if asked.function not in ADDED and not getattr(asked.user, "invertible", False):
                raise ValueError(refusal(name, agg, repr(asked)))
    return name


def refusal(name: str, agg: str, what: str) -> str:
    return (
        f"combine={name!r} removes what leaves a window, which is exact only for counts and for sums and means of "
        f"integers and decimals; aggs[{agg!r}] is {what}"
    )
