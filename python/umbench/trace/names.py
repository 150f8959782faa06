"""Names of kernels, allocations and code places, short enough for a line."""

import re

MAX_LENGTH = 48
# Functions of CUDA's runtime that are linked into programs, and of the code that calls main.
CUDA_FUNCTION_PATTERN = re.compile(r"^(__)?cuda|^(lib)?cudart|^cu[A-Z]|^__libc_start|^_start$")
SYSTEM_FOLDERS = ("/lib/", "/lib64/", "/usr/lib/")
PLACE_PATTERN = re.compile(r"^(.+)\+0x[0-9a-f]+(?: (.+?))?(?: \(([^()]*:[^()]*)\))?$")


class ShortNames:
    """Makes the names of a process's kernels, allocations and callers."""

    def __init__(self, allocations=()):
        self.managed_numbers = [a.number for a in allocations if a.memory == "managed"]

    def kernel_name(self, full_name):
        plain_name = re.sub(r"\(anonymous namespace\)::|^void ", "", full_name)
        plain_name = re.sub(r"\(.*\)(?: const)?$", "", plain_name) or plain_name
        plain_name = re.sub(r"(\w+::)+(?=\w+(<|$))", "", plain_name) if len(plain_name) > MAX_LENGTH else plain_name
        return plain_name if len(plain_name) <= MAX_LENGTH else plain_name[:MAX_LENGTH - 3] + "..."

    def allocation_name(self, allocation):
        """The name of an allocation: m0, m1 ... for managed allocations in order."""
        if allocation.number is None:
            return f"0x{allocation.address:x}"
        return f"m{self.managed_numbers.index(allocation.number)}"

    def description(self, allocation, size_text):
        """The name, size and place of an allocation as text; size_text(byte_count) makes the size's text."""
        place = self.place_text(allocation.callers)
        return f"{self.allocation_name(allocation)} ({size_text(allocation.bytes)}{f', made {place}' if place else ''})"

    def place_text(self, callers):
        """The innermost caller that belongs to the program: "in main (step.cpp:12)"."""
        unnamed_frame = ""
        for frame in callers:
            match = PLACE_PATTERN.match(frame)
            if not match:
                return f"in {frame}"  # only a function's name is known
            binary, function, source_line = match.groups()
            if binary.startswith(SYSTEM_FOLDERS):
                continue
            if function and not CUDA_FUNCTION_PATTERN.search(function):
                plain_function = re.sub(r"\(anonymous namespace\)::|\(.*\)$", "", function)[:MAX_LENGTH]
                return f"in {plain_function}" + (f" ({source_line})" if source_line and not source_line.endswith("?") else "")
            unnamed_frame = unnamed_frame or ("" if function else frame.rsplit("/", 1)[-1])
        return f"at {unnamed_frame}" if unnamed_frame else ""
