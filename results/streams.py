"""Writing results where they are wanted, so that a full disk, a closed reader or another encoding ends in one line."""

import os
import sys

from results import load


def write(text, out=None):
    """To the file `out`, whole or not at all, or to standard output. Throws load.BadInput."""
    if out is not None:
        write_file(text, out)
        return
    if sys.stdout is None:
        raise load.BadInput("standard output is closed")
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise load.BadInput(f"standard output: {error.strerror}") from error


def write_file(text, out):
    """Beside it first, then renamed, since a half-written file may be taken for a whole one; a device or pipe as it is."""
    load.check_path(out)
    beside = f"{out}.part" if not os.path.lexists(out) or os.path.isfile(out) else out
    try:
        with open(beside, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        if beside != out:
            os.replace(beside, os.path.realpath(out))
    except OSError as error:
        if beside != out and os.path.exists(beside):
            os.unlink(beside)
        raise load.BadInput(f"--out {out}: {error.strerror}") from error
