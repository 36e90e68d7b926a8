"""Where else a query has state: under another number of partitions or another name, before ``rescale`` or ``change``.

A query that is set back may go on in either place. What the other place has of later batches is then of a history that
was given up, and no state to go on from. Both know of each other by a file in the folder of their first partition:

    <partitions>.<name>.moved

Whoever goes on looks there before it publishes a batch. If another one has that batch or a later one, each of its
partitions gets a mark, ``<batch>.left``. If none has, they are forgotten: nothing of them could be taken for newer
state.
"""

from __future__ import annotations

from spark_udfs.state import Place
from spark_udfs.versions import Files


def note(old: Files, new: Files, query: str) -> None:
    """Note in both places that the query has state in the other one."""
    if (old.name, old.partitions) == (new.name, new.partitions):
        return
    for one, other in ((old, new), (new, old)):
        Place(one, query, 0).note_moved(other)


def going_on(place: Place, batch: int) -> None:
    """Mark what other places of the query have of a batch that is published next, and of later ones. The first
    partition does it for all."""
    if place.partition != 0:
        return
    ahead = [other for other in _others(place) if other.latest() >= batch]
    for other in ahead:
        note(place.files, other.files, place.query)
        for partition in range(other.files.partitions):
            Place(other.files, place.query, partition).mark_left(batch)
    if not ahead:
        place.forget_moved()


def _others(place: Place) -> list[Place]:
    """The first partitions of all other places: also of those that other places know of."""
    found, asked = {(place.files.name, place.files.partitions): place}, [place]
    while asked:
        for files in asked.pop().others():
            key = files.name, files.partitions
            if key not in found:
                found[key] = Place(files, place.query, 0)
                asked.append(found[key])
    return list(found.values())[1:]
