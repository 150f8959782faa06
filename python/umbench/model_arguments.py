"""Command lines of commands that take a PyTorch model as MODULE:FUNCTION. They are read before PyTorch is imported, which may be
missing."""

import os
import re
import shutil
import sys
import warnings

from umbench import arguments, load

MIN_TORCH_VERSION = (2, 9)
AUTOCAST_TYPES = {"bf16": "bfloat16", "fp16": "float16"}
EXPORT_DESCRIPTION = "Exports a PyTorch model as a graph file, which umbench takes wherever it takes a network's name."
FIT_DESCRIPTION = ("Predicts what fit would make of a model on a GPU, which need not be present: "
                   "whether it fits, how much slower it gets, and what is done.")


def parse_export(argv):
    parser = arguments.Parser(prog="umbench export", description=EXPORT_DESCRIPTION)
    parser.add_argument("model", metavar="MODULE:FUNCTION", help="returns a model and its example inputs")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.json", help="where the graph goes")
    parser.add_argument("--as", dest="form", choices=["compile", "eager"], default="compile",
                        help="compile: what torch.compile runs, kernels joined as Inductor joins them; eager: one kernel an operator (compile)")
    parser.add_argument("--name", help="the network's name (the function's)")
    parser.add_argument("--inference", action="store_true", help="the forward pass alone")
    parser.add_argument("--autocast", choices=list(AUTOCAST_TYPES), help="run the forward pass under torch.autocast in this type (off)")
    parser.add_argument("--optimizer", choices=["none", "sgd", "momentum", "adamw"], default="none", help="add its states and its step (none)")
    parser.add_argument("--step", choices=["foreach", "fused", "each"], default="foreach",
                        help="how the optimizer walks over the parameters (foreach, PyTorch's default on a GPU)")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], help="what multiplies (what the model's types say)")
    parser.add_argument("--machine", metavar="NAME|FILE.json",
                        help="write durations at this machine's rates (no durations: umbench works them out for the machine it runs on)")
    parser.add_argument("--measure", metavar="DEVICE", help="measure each shape once on this device, such as cuda (not measured)")
    parser.add_argument("--launch", type=arguments.parse_nanoseconds, metavar="TIME",
                        help="what the CPU takes to launch a kernel, such as 29us, for which operators wait: with --machine (0) or --measure (29us)")
    options = parser.parse_args(argv)
    if ":" not in options.model:
        parser.error(f"{options.model}: wants MODULE:FUNCTION such as mymodels.py:resnet")
    if options.launch and not (options.machine or options.measure):
        parser.error("--launch wants --machine or --measure: without durations nothing waits")
    options.name = options.name or re.sub(r"[^a-z0-9_.-]", "_", options.model.rpartition(":")[2].lower())
    if not re.fullmatch(r"[a-z0-9_.-]+", options.name):
        parser.error(f"--name {options.name}: use lower-case letters, digits, '-', '_', '.'")
    return options


def parse_effort(text):
    """Parses a number above 0 and at most 1000 (python/umbench/torch/refusals.py)."""
    value = float(text)
    if not 0 < value <= 1000:
        raise ValueError(text)
    return value


parse_effort.__name__ = "effort"


def parse_fit(argv):
    parser = arguments.Parser(prog="umbench fit", description=FIT_DESCRIPTION)
    parser.add_argument("model", metavar="MODULE:FUNCTION", help="returns a model and its example inputs")
    parser.add_argument("--budget", required=True, metavar="SIZE", help="of the device, for all of training, such as 24GiB")
    parser.add_argument("--gpu", default="sim:h200", metavar="sim:NAME", help="machine file whose rates count (sim:h200)")
    parser.add_argument("--batch", nargs="+", type=int, metavar="N", help="batches to try, at least 1: multiples of the example inputs' (that batch)")
    parser.add_argument("--optimizer", metavar="CLASS", help="a class of torch.optim whose states count, such as AdamW")
    parser.add_argument("--tier", choices=("pinned", "none"), default="pinned", help="none: nothing is offloaded (pinned)")
    parser.add_argument("--autocast", choices=list(AUTOCAST_TYPES), help="run the forward pass under torch.autocast in this type (off)")
    parser.add_argument("--effort", type=parse_effort, default=1.0, help="of the search for each plan, above 0; 1 is some seconds (1)")
    options = parser.parse_args(argv)
    if ":" not in options.model:
        parser.error(f"{options.model}: wants MODULE:FUNCTION such as mymodels.py:resnet")
    return options


def require_torch():
    """Restarts the program with the python3 of PATH if this Python lacks PyTorch. Throws load.BadInput."""
    warnings.filterwarnings("ignore")  # ignores warnings of PyTorch and of the model's libraries
    try:
        import torch
    except ImportError:
        other_python = shutil.which("python3")
        if other_python not in (None, sys.executable) and "UMBENCH_PYTHON" not in os.environ:
            os.environ["UMBENCH_PYTHON"] = other_python
            os.execv(other_python, [other_python, *sys.orig_argv[1:]])
        raise load.BadInput(f"PyTorch is missing in {sys.executable}: install torch 2.9 or later (the wheel for CPUs will do), or let "
                      "UMBENCH_PYTHON name a Python that has it") from None
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < MIN_TORCH_VERSION:
        raise load.BadInput(f"PyTorch {torch.__version__} is too old; install torch 2.9 or later")
