"""Runs functions in forked child processes: each has its own peak of memory, and the parent survives a crash or hang. The parent must not have
initialised CUDA."""

import multiprocessing
import os
import signal
import sys
import time

_context = multiprocessing.get_context("fork")


def run(function, task, deadline_s):
    """Runs function(task) in a child process. Returns (result, None), or (None, reason of the failure)."""
    return _wait_for_answer(_start(function, task), deadline_s, deadline_s)


def run_all(function, tasks, deadline_s, jobs):
    """Calls run() for each task, in batches of `jobs` processes. deadline_s holds for each batch."""
    answers = []
    for first in range(0, len(tasks), jobs):
        started = [_start(function, task) for task in tasks[first:first + jobs]]
        end = time.monotonic() + deadline_s
        try:
            answers += [_wait_for_answer(child, max(0.0, end - time.monotonic()), deadline_s) for child in started]
        finally:
            for child, _ in started:
                if child.is_alive():
                    _stop(child)
    return answers


def _start(function, task):
    receiver, sender = _context.Pipe(duplex=False)
    child = _context.Process(target=_child_main, args=(function, task, sender))
    child.start()
    sender.close()
    return child, receiver


def _wait_for_answer(process_and_receiver, left_s, deadline_s):
    """Waits up to left_s for the answer and stops the child. deadline_s is used in the error message alone."""
    child, receiver = process_and_receiver
    try:
        answer = receiver.recv() if receiver.poll(left_s) else (None, f"not done within {deadline_s:g} s")
    except EOFError:
        child.join()
        answer = (None, _exit_text(child.exitcode))
    finally:
        receiver.close()
        _stop(child)
    return answer


def _child_main(function, task, sender):
    os.setsid()  # the parent can then stop this process and all its children at once
    os.dup2(2, 1)  # libraries may print; standard output is the parent's
    try:
        answer = (function(task), None)
    except Exception as error:
        text = str(error).strip()
        answer = (None, f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}")
    sender.send(answer)
    sender.close()
    sys.stderr.flush()
    os._exit(0)  # skips handlers, which could hang or print


def _exit_text(code):
    return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _stop(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    child.join()
