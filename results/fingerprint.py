"""What of an environment line decides times, and whether two environments may be compared.

Left out is what differs between any two runs: the revision under test and the date. A fact that one side does not know is not held against the other.
"""

IGNORED = {"kind", "schema", "umbench", "created"}


def flat(environment):
    """{"gpu.name": value, ...} without what is ignored or unknown."""
    found = {}

    def walk(prefix, value):
        if isinstance(value, dict):
            for name, part in value.items():
                walk(f"{prefix}.{name}" if prefix else name, part)
        elif value is not None:
            found[prefix] = value

    walk("", {name: value for name, value in environment.items() if name not in IGNORED})
    return found


def differences(base, head):
    """["gpu.driver: 580 / 575", ...] of two environment lines."""
    left, right = flat(base), flat(head)
    return [f"{name}: {left[name]} / {right[name]}"
            for name in left if name in right and left[name] != right[name]]
