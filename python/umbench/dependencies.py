"""Reports in one line which Python package is missing or broken, instead of a traceback."""

import importlib
import sys

from umbench import output

DEBIAN_PACKAGES = {"numpy": "python3-numpy", "scipy": "python3-scipy", "matplotlib": "python3-matplotlib",
                   "jsonschema": "python3-jsonschema", "jinja2": "python3-jinja2"}


def require(*module_names):
    """Imports the modules. Exits with code 2 and a message if one is missing or cannot be imported."""
    missing_names = []
    for name in module_names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001: a package made for another Python can raise any exception
            if not (isinstance(error, ModuleNotFoundError) and error.name == name):
                exit_with_message(f"{sys.executable} cannot import {name} ({type(error).__name__}: {error}); install it anew")
            missing_names.append(name)
    if missing_names:
        exit_with_message(f"{sys.executable} lacks {', '.join(missing_names)}; "
                          f"install it (Debian: {' '.join(DEBIAN_PACKAGES[name] for name in missing_names)})")


def exit_with_message(problem):
    output.print_to_stderr(f"umbench: {problem} or let UMBENCH_PYTHON name a Python that has it")
    sys.exit(2)
