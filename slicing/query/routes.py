"""Which ways the query of a plan may take: what is kept, how slices become windows, which pushes are shorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicing.cells.blocks import Words, kind_of
from slicing.cells.combining import AUTO, EAGER
from slicing.cells.lanes import Lane
from slicing.cells.list_kinds import ListKind
from slicing.cells.sessions import Chains, chains
from slicing.cells.table import Cells
from slicing.columns.squares import SQUARES
from slicing.query.early import Early
from slicing.query.partials import Partials
from slicing.query.policy import Policy
from slicing.query.processing_time import ProcessingTime
from slicing.query.spec import Spec
from slicing.query.triggers import EachPush
from slicing.query.watermark import Bounded, Manual, Ordered
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy
from slicing.times.measure import Measure
from slicing.windows.bounds import Bound
from slicing.windows.edges import EdgeSet
from slicing.windows.rows.bound_rows import BoundRows


@dataclass(frozen=True)
class SessionWindow:
    """A session: rows are chained at ``gaps[level]``, and it ends ``gap`` after its last row."""

    window: int
    level: int
    gap: int


class Routes:
    """What follows from a resolved query, each computed when it is first read. ``Plan`` has what it follows from."""

    spec: Spec
    policy: Policy
    names: list[str]
    since: dict[str, int]
    agg_since: dict[str, int]
    measure: Measure
    lateness: int
    idle: int | None
    early: Early
    unlike: frozenset[str]
    # windows between edges, sessions, data-driven windows
    timed: list[int]
    bounds: list[Bound]
    types_of: Ints
    edges: EdgeSet
    fill: list[int]
    full: list[int]
    wholes: list[int]
    sessions: list[SessionWindow]
    session_gaps: list[int]
    levels: int
    bound_rows: dict[str, BoundRows]
    # partials
    partials: Partials
    cells: type[Cells]
    lanes: Sequence[Lane]
    ranked: Sequence[str]

    @lazy
    def keeps_rows(self) -> bool:
        """Whether rows are kept one by one, at least until they are final, in addition to or instead of slices."""
        return bool(self.bound_rows)

    @lazy
    def keeps_slices(self) -> bool:
        """Whether any window is answered from slices."""
        return bool(self.timed or self.sessions or self.wholes)

    @lazy
    def asks_rows(self) -> bool:
        """Whether rows are looked at one by one at the place of their keys, in addition to or instead of slices."""
        return self.keeps_rows or self.early.panes_of_rows

    @lazy
    def knows_rows(self) -> bool:
        """Whether a kept row is known again by its arrival: in plans whose windows may be emitted again. Elsewhere
        arrivals only order rows of one time."""
        return self.spec.revises or self.early.paned

    @lazy
    def revises(self) -> bool:
        """Whether late rows may change windows that were already emitted."""
        return self.spec.revises

    @lazy
    def patience(self) -> int:
        """How many ticks a window waits after its end: with final answers the allowed lateness, otherwise 0."""
        return 0 if self.spec.revises else self.lateness

    @lazy
    def sets_aside(self) -> bool:
        """Whether rows too far ahead of the watermark are set aside."""
        far = getattr(self.spec.watermark, "at_most_ahead", None) is not None
        return far and not isinstance(self.spec.time, ProcessingTime)

    @lazy
    def exact(self) -> bool:
        """Whether float sums also carry their rounding errors: for variances, which subtract sums, and for data-driven
        windows with changes, whose cells are cut anew for each answer."""
        squares = any(feed.form in SQUARES for lane in self.lanes for feed in lane.feeds)
        return squares or (self.spec.emit == "changes" and self.keeps_rows)

    @property
    def combine(self) -> str:
        """How slices are combined to windows: ``AUTO``, or the strategy that the operator was given."""
        return self.policy.combine

    @lazy
    def all_words(self) -> bool:
        """Whether all parts of a cell are words: none is a list."""
        return all([isinstance(lane.kind, int) for lane in self.lanes])

    @lazy
    def cells_are_words(self) -> bool:
        """Whether all parts of a cell are words, and a slice has one cell for each key."""
        return self.all_words and self.cells.a_cell_a_key

    @lazy
    def a_cell_a_slice(self) -> bool:
        """Whether a slice has only one cell in a run."""
        return self.cells.a_cell_a_key and not self.spec.by

    @lazy
    def _of_slices(self) -> bool:
        """Whether time windows are ranges of slices' cells: none is empty."""
        return bool(self.bounds) and not (self.fill or self.idle is not None)

    @lazy
    def slices_add_up(self) -> bool:
        """Whether time windows are sums of slices' cells: no empty windows, only partials of fixed size.

        Other windows of the plan do not matter.
        """
        return self._of_slices and all(isinstance(kind_of(lane), Words) for lane in self.lanes)

    @lazy
    def adds_up(self) -> bool:
        """Whether windows are sums of slices' cells: no sessions, no empty windows, only partials of fixed size."""
        return self.slices_add_up and self.cells.a_cell_a_key

    @lazy
    def gapless(self) -> bool:
        """Whether every time is in at least one window that slices answer."""
        return bool(self.sessions or self.wholes) or (bool(self.timed) and self.edges.gapless)

    def in_session(self, level: Ints) -> Mask:
        """Whether a cell of this level belongs to some session."""
        largest = max((s.level for s in self.sessions), default=-1)
        return level % self.levels <= largest

    def in_whole(self, level: Ints) -> Mask:
        """Whether a cell of this level belongs to a whole stream."""
        return level < self.levels

    def is_alive(self, level: Ints) -> Mask:
        """Whether a gap still takes a cell of this level. The longest gap is ``idle``, after which a key is quiet."""
        return level % self.levels < len(self.session_gaps)

    def chains_of(self, session: SessionWindow, table: Cells) -> Chains:
        """The runs of a table's cells that are sessions of this window."""
        return chains(table, self.session_gaps[session.level], table.level % self.levels <= session.level)

    @lazy
    def may_be_windows(self) -> bool:
        """Whether cells of slices may already be windows: there is only one tumbling type."""
        known = all(isinstance(kind_of(lane), Words | ListKind) for lane in self.lanes)
        alone = self._of_slices and self.cells.a_cell_a_key and self.types_of.size == 1
        return known and alone and self.edges.tumbles

    @lazy
    def tumbles(self) -> bool:
        """Whether cells are windows of the only type and name."""
        return self.may_be_windows and len(self.names) == 1

    @lazy
    def apart(self) -> bool:
        """Whether mostly no two windows share a cell: there is one type of windows, that does not overlap itself."""
        return self.may_be_windows or (not self.bounds and len(self.session_gaps) + bool(self.wholes) == 1)

    @lazy
    def periodic(self) -> tuple[int, int, int]:
        """The size, step and offset of the only type of windows; zeros if there are several, or they are irregular."""
        only = self.bounds[0].periodic if len(self.bounds) == 1 else None
        return only or (0, 0, 0)

    @lazy
    def slides(self) -> int:
        """The most slides that a window spans, if windows are sums of slices' cells; otherwise 0."""
        periodic = [bound.periodic for bound in self.bounds if bound.periodic is not None]
        return max([size // every for size, every, _ in periodic if self.adds_up], default=0)

    @lazy
    def most_windows(self) -> tuple[int, float, int]:
        """For time windows: at most how many hold a slice, how many end in a tick, and how long they are."""
        bounds = self.edges.bounds
        longest = max((b.longest for b in bounds), default=0)
        return sum(b.overlap for b in bounds), sum(b.per_tick for b in bounds), longest

    @property
    def eager(self) -> bool:
        """Whether the runs of the store have trees for windows of very many slices."""
        return self.combine == EAGER or (self.combine == AUTO and self.slides >= self.policy.tree_slides)

    @property
    def packs(self) -> bool:
        """Whether runs that are no longer merged are packed: cells are all words, and a slice has many cells."""
        return bool(self.spec.by) and self.cells_are_words and not self.eager

    @lazy
    def has_head(self) -> bool:
        """Whether the store may have a head: the query only adds up cells by code, in slots of one width."""
        plain = bool(self.spec.by) and self.adds_up and self.gapless
        plain = plain and not (self.keeps_rows or self.ranked or self.spec.revises or self.early.paned)
        return plain and self.edges.regular_width(0) is not None

    @lazy
    def extreme_texts(self) -> Mapping[str, tuple[bool, bool]]:
        """The columns of text of which only the least and the largest of a slice are read, and which of the two. A
        slice is a run of rows if they come in order."""
        runs = self.adds_up and self.gapless and self.edges.periodic and not self.edges.marks
        plain = runs and not (self.spec.by or self.asks_rows or self.spec.op is not None)
        return self.partials.extreme_texts if plain else {}

    @lazy
    def reports_head(self) -> bool:
        """Whether the store may have a head although windows are reported early: those of one tumbling type, at each
        push or at times."""
        if not (self.spec.by and self.adds_up and len(self.names) == len(self.bounds) == 1):
            return False
        size, every, _ = self.bounds[0].periodic or (0, 1, 0)
        if size != every or self.keeps_rows or self.ranked or self.lateness or self.spec.op is not None:
            return False
        trigger = self.spec.trigger_of(self.names[0])
        return self.early.cuts[0] is not None or (trigger is not None and trigger.parts() == (EachPush(),))

    @lazy
    def goes_straight(self) -> bool:
        """Whether a push of rows in order may go straight from columns to cells (``stages.straight``): the query has no
        keys, its windows are final when they come, and all edges are at fixed distances."""
        periodic = self.adds_up and self.gapless and self.edges.periodic and not self.edges.marks
        if self.spec.by or not (self.cells_are_words and (periodic or (self.may_be_windows and len(self.names) == 1))):
            return False
        late = self.spec.revises or self.early.paned or self.spec.op is not None or self.sets_aside
        added = self.since or self.agg_since or self.full or self.ranked or self.unlike or self.exact
        own = type(self.spec.watermark) in (Bounded, Ordered, Manual) and isinstance(self.spec.time, str)
        return own and not (late or added or self.keeps_rows or self.measure.is_uint64)
