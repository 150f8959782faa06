import os
import signal
import sys
import time
from pathlib import Path

import children

PATIENCE_S = 3600  # only a hang takes so long
AGAIN_S = 60


def wait_until(condition):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "it never came about"
        time.sleep(0.02)


def grandchild_that_stays(folder):
    """Writes its number, waits to be told to go on, and then says that it is still here."""
    if os.fork() == 0:
        (folder / "new").write_text(str(os.getpid()), encoding="utf-8")
        (folder / "new").rename(folder / "number")
        wait_until((folder / "go").exists)
        (folder / "still here").touch()
        os._exit(0)
    wait_until((folder / "never").exists)


def has_outlived_its_parent(folder):
    """Whether the grandchild wrote what it writes only if it was not stopped. Waits until it has ended."""
    status = Path("/proc", (folder / "number").read_text(encoding="utf-8"), "stat")

    def is_gone():
        try:
            return status.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] in ("Z", "X")
        except OSError:
            return True

    (folder / "go").touch()
    wait_until(is_gone)
    return (folder / "still here").exists()


def test_a_child_gives_its_result_or_the_reason():
    assert children.run_in_child(lambda task: task + 1, 41, PATIENCE_S) == (42, None)
    assert children.run_in_child(lambda task: 1 / task, 0, PATIENCE_S) == (None, "ZeroDivisionError: division by zero")


def test_a_crash_and_an_early_end_are_reasons():
    assert children.run_in_child(lambda task: os.kill(os.getpid(), signal.SIGKILL), None, PATIENCE_S) == (None, "killed by signal 9")
    assert children.run_in_child(lambda task: os._exit(3), None, PATIENCE_S) == (None, "ended with exit code 3")


def test_several_at_a_time_give_their_answers_in_order(tmp_path):
    def beside_the_others(task):
        (tmp_path / str(task)).touch()
        while len(list(tmp_path.iterdir())) < 4:
            time.sleep(0.02)
        return 10 // task

    answers = children.run_in_children(beside_the_others, [1, 0, 2, 5], PATIENCE_S, 4)
    assert [result for result, _ in answers] == [10, None, 5, 2]
    assert "ZeroDivisionError" in answers[1][1]


def test_a_deadline_takes_helpers_along(tmp_path):
    deadline_s = 0.25
    while not (tmp_path / "number").exists():  # a slow machine needs longer to begin
        deadline_s *= 2
        assert children.run_in_child(grandchild_that_stays, tmp_path, deadline_s) == (None, f"not done within {deadline_s:g} s")
    assert not has_outlived_its_parent(tmp_path)


def test_what_a_child_prints_is_not_on_standard_output(capfd):
    children.run_in_child(lambda task: os.write(1, b"from a library"), None, PATIENCE_S)
    captured = capfd.readouterr()
    assert captured.out == "" and "from a library" in captured.err


def test_a_stopped_parent_takes_its_children_along(tmp_path):
    parent = os.fork()
    if parent == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            children.run_in_children(grandchild_that_stays, [tmp_path], PATIENCE_S, 2)
        finally:
            os._exit(0)
    wait_until((tmp_path / "number").exists)
    # Python drops what a handler raises in its callbacks around a fork: then, much later, once more.
    told = time.monotonic() - AGAIN_S
    while os.waitpid(parent, os.WNOHANG) == (0, 0):
        if time.monotonic() - told >= AGAIN_S:
            os.kill(parent, signal.SIGTERM)
            told = time.monotonic()
        time.sleep(0.02)
    assert not has_outlived_its_parent(tmp_path)
