"""Messages and output of the scripts. A full disk, a closed reader or a wrong encoding leads to a message of one line."""

import contextlib
import difflib
import os
import signal
import sys
import threading
import time


class Refusal(Exception):
    """Some input cannot be used. The message is one line that names it."""


MAX_CHARACTERS, KEPT_AT_END = 1800, 400  # length to which a long line is shortened, and the part of that from its end


def did_you_mean(name, known_names):
    """A text such as '; did you mean --batch?' for the most similar known name; '' if none is similar."""
    similar_names = difflib.get_close_matches(name, known_names, n=1)
    return f"; did you mean {similar_names[0]}?" if similar_names else ""


def print_to_stderr(text):
    """Prints a line to standard error, without the middle of a long one. If standard error is closed, nothing is printed."""
    line = text.replace("\n", "\\n")
    if len(line) > MAX_CHARACTERS:
        line = f"{line[:MAX_CHARACTERS - KEPT_AT_END]} ... {line[-KEPT_AT_END:]}"
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass


@contextlib.contextmanager
def showing_progress(task):
    """A context that prints "umbench: drawing, 2 s so far" after two seconds and then at growing intervals."""
    end_event, start_s = threading.Event(), time.monotonic()

    def report():
        next_report_s = 2
        while not end_event.wait(max(0.0, start_s + next_report_s - time.monotonic())):
            print_to_stderr(f"umbench: {task}, {time.monotonic() - start_s:.0f} s so far")
            next_report_s += min(2 * next_report_s, 60)

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        end_event.set()


def warn(text):
    print_to_stderr(f"warning: {text}")


def run(main, message_prefix, exit_codes):
    """Runs main() and returns its exit code. An exception in `exit_codes`, {class: exit code}, becomes a line that begins with `message_prefix`."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # names may have characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        exit_code = main() or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except tuple(exit_codes) as error:
        print_to_stderr(f"{message_prefix}: {error}")
        return next(exit_code for kind, exit_code in exit_codes.items() if isinstance(error, kind))
    except MemoryError:
        print_to_stderr(f"{message_prefix}: out of memory")
    except OSError as error:
        _drop_output()
        print_to_stderr(f"{message_prefix}: {error.filename or 'standard output'}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001
        if os.environ.get("UMBENCH_TRACEBACK"):
            raise
        print_to_stderr(f"{message_prefix}: cannot make anything of this input ({type(error).__name__}: {' '.join(str(error).split())[:200]}); "
                        "UMBENCH_TRACEBACK=1 shows where")
    return 2


def _drop_output():
    """Drops the buffered standard output. Otherwise Python tries to write it again at exit and prints an error."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def write(text, out_path=None):
    """Writes text to the file `out_path`, completely or not at all, or to standard output. Throws Refusal."""
    if out_path is not None:
        write_file(out_path, text)
        return
    if sys.stdout is None:
        raise Refusal("standard output is closed")
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def write_file(out_path, content, flag="--out "):
    """Writes text or bytes to a temporary file beside `out_path` and renames it, so that nobody reads a partial file. Devices and pipes are
    written directly."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    out_path = os.fspath(out_path)
    if not out_path:
        raise Refusal(f"{flag}: an empty path names no file; is a variable unset?")
    is_regular = not os.path.lexists(out_path) or os.path.isfile(out_path)
    target = os.path.realpath(out_path) if is_regular else out_path
    partial_file = target + ".part" if is_regular else out_path
    try:
        with open(partial_file, "wb") as file:
            file.write(data)
        if is_regular:
            os.replace(partial_file, target)
    except (OSError, ValueError) as error:
        if is_regular and os.path.exists(partial_file):
            os.unlink(partial_file)
        raise Refusal(f"{flag}{out_path}: {getattr(error, 'strerror', None) or error}") from error
