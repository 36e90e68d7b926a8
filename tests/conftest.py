"""What all tests share: a Spark that starts quickly."""

import os
from pathlib import Path

import pytest
from quick_spark import LIGHT, without_forks

if "SPARK_SUBMIT_OPTS" not in os.environ:  # processes of tests have it from this one
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([LIGHT, *without_forks()])

# Where `quick_spark.WARM` looks for its module.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "spark"), *filter(None, [os.environ.get("PYTHONPATH")])]
)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes that run the tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
