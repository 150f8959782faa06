"""Starts umbench fit: reads its command line before PyTorch, which may be missing, is imported."""

import sys

from umbench import load, model_arguments


def main():
    options = model_arguments.parse_fit(sys.argv[1:])
    model_arguments.require_torch()
    from umbench.torch import forecast
    return forecast.main(options)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="tracing and planning"))
