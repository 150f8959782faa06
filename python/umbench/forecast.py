"""Starts umbench fit: reads its command line before PyTorch, which may be missing, is imported."""

import sys

from umbench import load, model_arguments, output


def main():
    model_arguments.fit(sys.argv[1:])
    model_arguments.needs_torch()
    from umbench.torch import forecast
    with output.ticking("tracing and planning"):
        return forecast.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
