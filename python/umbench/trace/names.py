"""Names of kernels, allocations and code places, short enough for a line."""

import os
import re
import subprocess
import time
from pathlib import Path

LONGEST = 48
# Functions of CUDA's runtime that are linked into programs.
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/")
OF_CUDA = re.compile(r"^(__)?cuda|^(lib)?cudart|^cu[A-Z]|^__libc_start|^_start$|^\?\?$")


class Names:
    def __init__(self, allocations=(), environment=None):
        """`environment`: of the trace; files of another machine, and newer ones, are not those that ran."""
        here = environment is None or environment.get("kernel_release") == os.uname().release
        self.traced_at = (environment or {}).get("wall_clock_ns", time.time_ns()) / 1e9 if here else 0
        self.managed = [a.number for a in allocations if a.memory == "managed"]
        self.resolved = {}

    def kernel(self, name):
        plain = re.sub(r"\(anonymous namespace\)::|^void ", "", name)
        plain = re.sub(r"\(.*\)(?: const)?$", "", plain) or plain
        plain = re.sub(r"(\w+::)+(?=\w+(<|$))", "", plain) if len(plain) > LONGEST else plain
        return plain if len(plain) <= LONGEST else plain[:LONGEST - 3] + "..."

    def allocation(self, allocation):
        """m0, m1 ...: managed allocations in order."""
        if allocation.number is None:
            return f"0x{allocation.address:x}"
        return f"m{self.managed.index(allocation.number)}"

    def described(self, allocation, size):
        made = self.place(allocation.called)
        return f"{self.allocation(allocation)} ({size(allocation.bytes)}{f', made {made}' if made else ''})"

    def place(self, called):
        """The innermost caller that is of the program: "in main (step.cpp:12)"."""
        best = ""
        for frame in called:
            function, line = ("", "") if frame.startswith(SYSTEM) else self._resolve(frame)
            if function and not OF_CUDA.search(function):
                return f"in {function}" + (f" ({line})" if line else "")
            if not re.match(r"(.+)\+0x", frame):
                return f"in {frame}"  # a name already
            if not frame.startswith(SYSTEM):
                best = best or frame.split(" ")[0].rsplit("/", 1)[-1]
        return f"at {best}" if best else ""

    def _resolve(self, frame):
        if frame not in self.resolved:
            self.resolved[frame] = _symbol(frame, self.traced_at)
        return self.resolved[frame]


def _symbol(frame, traced_at):
    """(function, file:line) of "/path/to/file+0x12 symbol"; each "" where it is not known."""
    match = re.match(r"(.+)\+(0x[0-9a-f]+)(?: (\S+))?$", frame)
    if not match:
        return "", ""
    path, offset, exported = match.groups()
    if Path(path).is_file() and Path(path).stat().st_mtime <= traced_at:
        try:
            text = subprocess.run(["addr2line", "-f", "-C", "-s", "-e", path, offset], capture_output=True, text=True, timeout=60).stdout
            function, line = (text.splitlines() + ["", ""])[:2]
            if function and function != "??":
                return re.sub(r"\(anonymous namespace\)::|\(.*\)$", "", function)[:LONGEST], "" if line.startswith("??") else line.split(" ")[0]
        except (OSError, subprocess.SubprocessError):
            pass
    return (exported or "")[:LONGEST], ""
