"""``slicing demo``: the demonstration of one process."""

import subprocess
import sys

COMMAND = [sys.executable, "-m", "slicing", "demo", "--rows", "100000"]


def test_the_demo_checks_its_windows():
    done = subprocess.run([*COMMAND, "--quiet"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    assert "12 of 12 windows the same" in done.stdout and "adds up" in done.stdout


def test_a_reader_that_has_seen_enough_gets_no_traceback():
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        assert demo.stdout.readline().startswith("100,000 readings")
        demo.stdout.close()
        assert demo.stderr.read() == "" and demo.wait(300) == 0
