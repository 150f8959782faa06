"""Runs functions in forked child processes: each has its own peak of memory, and the parent survives a crash or hang. The parent must not have
initialised CUDA."""

import multiprocessing
import os
import signal
import sys
import time

_context = multiprocessing.get_context("fork")


def run_in_child(function, task, max_seconds):
    """Runs function(task) in a child process. Returns (result, None), or (None, reason of the failure)."""
    return _wait_for_answer(_start_child(function, task), max_seconds, max_seconds)


def run_in_children(function, tasks, max_seconds, processes_at_once):
    """Calls run_in_child() for each task, in batches of `processes_at_once`. `max_seconds` holds for each batch."""
    answers = []
    for first_index in range(0, len(tasks), processes_at_once):
        children_and_receivers = [_start_child(function, task) for task in tasks[first_index:first_index + processes_at_once]]
        end_time = time.monotonic() + max_seconds
        try:
            answers += [_wait_for_answer(child, max(0.0, end_time - time.monotonic()), max_seconds) for child in children_and_receivers]
        finally:
            for child, _ in children_and_receivers:
                if child.is_alive():
                    _kill_process_group(child)
    return answers


def _start_child(function, task):
    receiver, sender = _context.Pipe(duplex=False)
    child = _context.Process(target=_child_main, args=(function, task, sender))
    child.start()
    sender.close()
    return child, receiver


def _wait_for_answer(child_and_receiver, seconds_left, max_seconds):
    """Waits up to `seconds_left` for the answer and kills the child. `max_seconds` is used in the error message alone."""
    child, receiver = child_and_receiver
    try:
        answer = receiver.recv() if receiver.poll(seconds_left) else (None, f"not done within {max_seconds:g} s")
    except EOFError:
        child.join()
        answer = (None, _exit_text(child.exitcode))
    finally:
        receiver.close()
        _kill_process_group(child)
    return answer


def _child_main(function, task, sender):
    os.setsid()  # the parent can then stop this process and all its children at once
    os.dup2(2, 1)  # libraries may print; standard output is the parent's
    try:
        answer = (function(task), None)
    except Exception as error:
        error_text = str(error).strip()
        answer = (None, f"{type(error).__name__}: {error_text.splitlines()[0] if error_text else 'no message'}")
    sender.send(answer)
    sender.close()
    sys.stderr.flush()
    os._exit(0)  # skips handlers, which could hang or print


def _exit_text(exit_code):
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _kill_process_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    child.join()
