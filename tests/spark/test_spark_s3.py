"""State on an object store: how many requests a batch takes, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

pytest.importorskip("pyspark")

from s3_server import S3Server
from test_spark_state import SPEC, all_windows, drained, forget, job, place, rescale, rows, run, windows

from slicing.system.filesystems import filesystem
from spark_udfs import versions
from spark_udfs.jobs import Job
from spark_udfs.policy import Policy
from spark_udfs.versions import Files, StateError

PLACES = 2
# pyarrow 18 writes each file as an upload of parts: it is begun and ended by a POST
PARTS = 0 if "allow_delayed_open" in str(S3FileSystem.__doc__) else 2


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server("team/state") as running:
        yield running
    versions._opened.cache_clear()


def on(server: S3Server, path: Path, partitions: int = PLACES) -> Job:
    files = Files(server.uri, "windows", partitions, SPEC.fingerprint())
    return replace(job(path, partitions), files=files)


def test_a_batch_takes_four_requests_a_partition_and_none_outside_of_the_root(server: S3Server, tmp_path: Path) -> None:
    query = on(server, tmp_path)
    found = []
    for batch in range(6):
        server.requests.clear()
        found += windows(run(query, batch, rows(batch), readers=PLACES))
        counted = Counter(method for method, _ in server.requests)
        # a reader and a place look into a folder each; a place reads one version (its size, its bytes) and puts one
        assert counted["PUT"] == PLACES
        assert counted["GET"] == counted["HEAD"] == (PLACES if batch else 0)
        assert counted["LIST"] <= 2 * PLACES
        of_places = sum(counted.values()) - (PLACES if batch else 0)  # without the readers' one each
        assert counted["POST"] == PARTS * PLACES
        assert of_places <= (4 + PARTS) * PLACES
    assert server.refused == []
    assert sorted(found + drained(query, 5), key=repr) == all_windows(job(tmp_path, PLACES), 6)


def test_a_large_state_that_is_held_is_not_read(server: S3Server, tmp_path: Path) -> None:
    query = replace(on(server, tmp_path, 1), policy=Policy(large=1))
    for batch in range(4):
        server.requests.clear()
        run(query, batch, rows(batch), readers=1)
    assert Counter(method for method, _ in server.requests) == Counter(LIST=2, PUT=1, POST=PARTS)


def test_old_versions_are_removed_and_a_query_is_rescaled_inside_of_the_root(server: S3Server, tmp_path: Path) -> None:
    query = on(server, tmp_path, 1)
    assert query.files is not None
    query = replace(query, files=replace(query.files, keep=2))
    for batch in range(18):
        run(query, batch, rows(batch, 3), readers=1)
    assert place(query).batches() == [14, 15, 16, 17]
    assert rescale(server.uri, SPEC, 1, 3) == 17
    assert windows(run(on(server, tmp_path, 3), 18, rows(18))) != []
    assert server.refused == []


def test_an_answer_that_fails_fails_the_task_and_the_next_attempt_goes_on(server: S3Server, tmp_path: Path) -> None:
    query, calm = on(server, tmp_path, 1), job(tmp_path / "calm", 1)
    for batch in range(5):
        server.faults[:] = [403] * (batch % 3)  # not repeated by the client
        found = None
        while found is None:
            try:
                found = run(query, batch, rows(batch), readers=1)
            except (OSError, StateError):
                forget()
        assert windows(found) == windows(run(calm, batch, rows(batch), readers=1))
    assert place(query).batches() == [0, 1, 2, 3, 4]


def test_names_that_only_hadoop_knows_say_what_is_needed() -> None:
    for path, sentence in (
        ("hdfs:/x/y", "has a scheme and one slash, which would be a local folder named 'hdfs:'; write hdfs://host/x/y"),
        ("dbfs:/x", "one slash, .* write the path as it is mounted, /dbfs/path, or a volume's"),
        ("s3a:/x", "one slash, .* write s3://bucket/path"),
        ("wasbs://c@a/x", "install adlfs|write abfss://"),
    ):
        with pytest.raises(ValueError, match=sentence):
            filesystem(path)
    assert filesystem("file:/x/y")[1] == "/x/y"
