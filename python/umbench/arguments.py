"""Parsers of the Python commands. An invalid command line leads to a message of one line and exit code 2."""

import argparse
import math
import re
import sys

from umbench import load, output

UNITS_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def help_with_default(action):
    """The help of an option with a value, ending with "required" or "default: ...". Parentheses at the end, as in "(bh)", are the default
    in words."""
    text = action.help or ""
    if re.search(r"default: |; required$", text):
        return text
    if action.required:
        return f"{text}; required".removeprefix("; ")
    default_in_words = re.fullmatch(r"(.*) \(([^()]*)\)", text, re.DOTALL)
    is_plain = isinstance(action.default, (str, int, float))
    default = default_in_words[2] if default_in_words else action.default if is_plain else "none"
    return f"{default_in_words[1] if default_in_words else text}; default: {default}".removeprefix("; ")


class Parser(argparse.ArgumentParser):
    def parse_args(self, argv=None, namespace=None):
        """Parses the arguments. Reports an unknown option before missing ones."""
        argv = sys.argv[1:] if argv is None else list(argv)
        own_words = argv[:argv.index("--")] if "--" in argv else argv
        self._options = [word.split("=")[0] for word in own_words if word.startswith("--")]
        return super().parse_args(argv, namespace)

    def error(self, message):
        known_options = self._option_string_actions
        unknown_options = [option for option in self._options if not any(name.startswith(option) for name in known_options)]
        if unknown_options:
            message = f"{unknown_options[0]}: unknown option{output.did_you_mean(unknown_options[0], known_options)}"
        output.print_to_stderr(f"umbench: {message}; see {self.prog} --help")
        sys.exit(load.EXIT_BAD_INPUT)

    def format_help(self):
        for action in self._actions:
            if action.option_strings and action.nargs != 0:
                action.help = help_with_default(action)
        return super().format_help()


def parse_share(text):
    """Parses a share: 0.05 from "5%" or "0.05"."""
    number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= number < 10:
        raise ValueError
    return number


def parse_nanoseconds(text):
    """Parses a time: 10000 from "10us"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s)", text)
    if not match or not math.isfinite(float(match[1]) * UNITS_NS[match[2]]):
        raise ValueError
    return float(match[1]) * UNITS_NS[match[2]]


def parse_probability(text):
    number = float(text)
    if not 0 < number < 1:
        raise ValueError
    return number


# argparse writes the name of the type in its message: "invalid a share such as 5% value: ..."
parse_share.__name__ = "share (5% or 0.05)"
parse_nanoseconds.__name__ = "time (10us, 1ms)"
parse_probability.__name__ = "probability (above 0, below 1)"


def limit_parser(known_names):
    """A type for argparse that parses "link=10%" to ("link", 0.1)."""

    def parse_limit(text):
        name, _, share_text = text.partition("=")
        if name not in known_names:
            raise argparse.ArgumentTypeError(f"{text!r}: wants NAME=SHARE such as link=10%, NAME one of {', '.join(known_names)}")
        try:
            return name, parse_share(share_text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: {share_text!r} is no share (5% or 0.05)") from None

    return parse_limit


def aspect_set_parser(known_names):
    """A type for argparse that parses "time,link", "all" or "none" to a set of names."""

    def parse_aspects(text):
        chosen = set(known_names) if text == "all" else set() if text == "none" else set(text.split(","))
        unknown = sorted(chosen - set(known_names))
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known_names)}, all and none")
        return chosen

    return parse_aspects


def parse_compare(description, argv=None):
    from umbench import aspects  # imported here, since only compare needs SciPy
    from umbench.judge import Limits

    default_limits = Limits()
    limits = {"time": default_limits.relative, "mean": default_limits.mean} | aspects.LIMITS
    defaults_text = ", ".join(f"{name} {100 * limit:g}%%" for name, limit in limits.items())
    parser = Parser("umbench compare", description=description.splitlines()[0],
                    epilog="Exit codes: 0 nothing regressed, 1 a cell regressed (or the mean of all), 2 bad usage or bad "
                           "input, 3 nothing regressed but some cells cannot be judged: too little data or another machine file.")
    parser.add_argument("base", metavar="BASE", help="record file, or folder of runs, to compare with")
    parser.add_argument("head", metavar="HEAD", help="record file, or folder of runs, to judge; files of one name in both "
                                                     "folders are rounds, judged each by itself")
    parser.add_argument("--limit", action="append", default=[], type=limit_parser(limits), metavar="NAME=SHARE",
                        help="change that is tolerated in measured cells; time is that of a cell, mean the geometric mean "
                             f"over all ({defaults_text})")
    parser.add_argument("--fail-on", type=aspect_set_parser(aspects.ASPECTS), default=set(aspects.JUDGED), metavar="NAMES",
                        help=f"which regressions count, by commas, or all, or none: {', '.join(aspects.ASPECTS)}; the others "
                             "are told (all but modes)")
    parser.add_argument("--relative", type=parse_share, metavar="SHARE", help="the same as --limit time=SHARE (5%%)")
    parser.add_argument("--absolute", type=parse_nanoseconds, default=default_limits.absolute_ns, metavar="TIME",
                        help="change in time that is tolerated, for very short cells (10us)")
    parser.add_argument("--alpha", type=parse_probability, default=default_limits.alpha, metavar="CHANCE",
                        help="chance of a false alarm over all cells, before the limits (0.05)")
    parser.add_argument("--correction", choices=["bh", "holm"], default=default_limits.correction,
                        help="for many cells: Benjamini-Hochberg or Holm (bh)")
    parser.add_argument("--noise", action="append", default=[], metavar="PATH",
                        help="runs of one and the same code (a folder, or repeated files): cells' limits rise to "
                             "what those show")
    parser.add_argument("--allow-unlike", action="store_true",
                        help="compare although the machines, their settings or machine files differ")
    parser.add_argument("--same-gpu", action="store_true",
                        help="refuse to compare two GPUs of one model, which is otherwise only told")
    parser.add_argument("--strict", action="store_true", help="ambiguous cells are too little data as well (exit 3)")
    parser.add_argument("--pairs", action="store_true",
                        help="compare each file of the folder BASE with that of the same name in HEAD, a row each: with "
                             "runs of one code this shows how often the gate is wrong")
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text", help="what is printed")
    parser.add_argument("--all", action="store_true", help="show the cells that are ok as well")
    parser.add_argument("--out", metavar="FILE", help="file to write (standard output)")
    options = parser.parse_args(argv)
    if options.pairs and options.format == "json":
        parser.error("--pairs prints text or Markdown, not JSON")
    options.limits = limits | dict(options.limit)
    options.relative = options.limits["time"] = options.limits["time"] if options.relative is None else options.relative
    return options


def parse_count(text):
    number = int(text)
    if not 1 <= number <= 10_000:
        raise ValueError
    return number


parse_count.__name__ = "count (1 to 10000)"


def parse_count_or_zero(text):
    return 0 if text == "0" else parse_count(text)


parse_count_or_zero.__name__ = "count (0 to 10000)"


def parse_interleave(description):
    parser = Parser("umbench interleave", description=description.splitlines()[0])
    parser.add_argument("spec", metavar="SPEC.json", help="sweep file")
    parser.add_argument("--base", required=True, metavar="PROGRAM", help="the umbench to compare with")
    parser.add_argument("--head", required=True, metavar="PROGRAM", help="the umbench to judge")
    parser.add_argument("--rounds", type=parse_count, default=5, metavar="N", help="times that each runs every cell, 1 to 10000 (5)")
    parser.add_argument("--more", type=parse_count_or_zero, default=0, metavar="N",
                        help="further rounds of the cells whose times the first ones leave ambiguous, 0 to 10000 (0)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for base/ and head/, a file a round")
    parser.add_argument("--machines", metavar="DIR", help="folder with more machine files (the built-in ones alone)")
    return parser.parse_args()


def parse_export(description, formats):
    parser = Parser("umbench export", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.jsonl", help="record file")
    parser.add_argument("--format", required=True, choices=formats, help="of which tool")
    parser.add_argument("--out", metavar="FILE", help="file to write (standard output)")
    return parser.parse_args()
