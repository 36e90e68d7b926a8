"""Where else a query has state: under another number of partitions or another name, before ``rescale`` or ``change``.

A query that is set back may go on in either place. What the other place has of later batches is then of a history that
was given up, and no state to go on from. Both know of each other by a file in the folder of their first partition:

    <partitions>.<name>.moved

Whoever goes on looks there before it publishes a batch. If the other one has that batch or a later one, each of its
partitions gets a mark, ``<batch>.left``. If it has none, it is forgotten: nothing of it could be taken for newer state.
"""

from __future__ import annotations

from dataclasses import replace

from spark_udfs.state import Files, Place


def note(old: Files, new: Files, query: str) -> None:
    """Note in both places that the query has state in the other one."""
    if (old.name, old.partitions) == (new.name, new.partitions):
        return
    for one, other in ((old, new), (new, old)):
        one.place(query, 0).note_moved(other)


def going_on(place: Place, batch: int) -> None:
    """A partition is about to publish a batch: it is not left, and what other places have from this batch on is."""
    place.forget_left()
    if place.partition != 0:
        return
    for other in place.others():
        there = replace(place.files, name=other.name, partitions=other.partitions)
        if there.place(place.query, 0).latest() < batch:
            place.forget_moved(other)
            continue
        there.place(place.query, 0).note_moved(place.files)
        for partition in range(there.partitions):
            there.place(place.query, partition).mark_left(batch)
