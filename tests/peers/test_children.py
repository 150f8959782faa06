import os
import signal
import sys
import time

import children

PATIENCE_S = 3600  # only a hang takes so long


def grandchild_that_stays(path):
    if os.fork() == 0:
        time.sleep(1.5)
        with open(path, "w", encoding="utf-8") as file:
            file.write("still here")
        os._exit(0)
    time.sleep(30)


def test_a_child_gives_its_result_or_the_reason():
    assert children.run(lambda task: task + 1, 41, PATIENCE_S) == (42, None)
    assert children.run(lambda task: 1 / task, 0, PATIENCE_S) == (None, "ZeroDivisionError: division by zero")


def test_a_crash_and_an_early_end_are_reasons():
    assert children.run(lambda task: os.kill(os.getpid(), signal.SIGKILL), None, PATIENCE_S) == (None, "killed by signal 9")
    assert children.run(lambda task: os._exit(3), None, PATIENCE_S) == (None, "ended with exit code 3")


def test_several_at_a_time_give_their_answers_in_order(tmp_path):
    def beside_the_others(task):
        (tmp_path / str(task)).touch()
        while len(list(tmp_path.iterdir())) < 4:
            time.sleep(0.02)
        return 10 // task

    answers = children.run_all(beside_the_others, [1, 0, 2, 5], PATIENCE_S, 4)
    assert [result for result, _ in answers] == [10, None, 5, 2]
    assert "ZeroDivisionError" in answers[1][1]


def test_a_deadline_takes_helpers_along(tmp_path):
    path = str(tmp_path / "file")
    assert children.run(grandchild_that_stays, path, 0.5) == (None, "not done within 0.5 s")
    time.sleep(1.5)
    assert not os.path.exists(path)


def test_what_a_child_prints_is_not_on_standard_output(capfd):
    children.run(lambda task: os.write(1, b"from a library"), None, PATIENCE_S)
    captured = capfd.readouterr()
    assert captured.out == "" and "from a library" in captured.err


def test_a_stopped_parent_takes_its_children_along(tmp_path):
    path = str(tmp_path / "file")
    parent = os.fork()
    if parent == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            children.run_all(grandchild_that_stays, [path], 20, 2)
        finally:
            os._exit(0)
    time.sleep(0.5)
    os.kill(parent, signal.SIGTERM)
    os.waitpid(parent, 0)
    time.sleep(1.5)
    assert not os.path.exists(path)
