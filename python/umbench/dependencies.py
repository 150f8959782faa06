"""Says in one line which Python package is missing, before the import that would fail with a traceback."""

import importlib.util
import sys

from umbench import output

PACKAGES = {"numpy": "python3-numpy", "scipy": "python3-scipy", "matplotlib": "python3-matplotlib",
            "jsonschema": "python3-jsonschema", "jinja2": "python3-jinja2"}


def require(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        debian = " ".join(PACKAGES[name] for name in missing)
        output.say(f"umbench: {sys.executable} lacks {', '.join(missing)}; install it (Debian: {debian}) or let "
                    "UMBENCH_PYTHON name a Python that has it")
        sys.exit(2)
