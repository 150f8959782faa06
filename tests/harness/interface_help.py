"""What every command says of its options, and what lists look like."""

import re

from interface import InterfaceTest

COMMANDS = ["list", "advise", "env", "calibrate", "validate", "plan", "run", "sweep", "tune", "ablate", "machine new",
            "machine show", "machine check", "merge", "pack", "plan-torch"]
PYTHON_COMMANDS = ["compare", "export", "export model.py:function", "fit", "report", "plot overview", "plot slowdown", "plot growth",
                   "plot timeline", "plot bounds", "plot peers", "plot table", "reproduce", "interleave", "trace", "explain"]
NUMBERS = {"N", "NUMBER", "SECONDS", "SIZE", "I/N"}
RANGE = r"\d+ to \S+|at least \d|above \d|or more|1 to N"
WITHOUT_RANGE = {"fit --budget"}  # any size that the device has
WIDTH, SCREEN = 100, 24


def options(text):
    """(names, type, whether CLI says that it is required, what is said of it) of everything that takes a value."""
    rows = []
    for line in text.splitlines():
        named = re.match(r"  (\S+)(?: (\S+))?((?: (?:REQUIRED|\.\.\.))*)(?:\s+(\S.*))?$", line)
        if named:
            rows.append([named[1], named[2], named[3], named[4] or ""])
        elif rows and line.startswith(" "):
            rows[-1][3] += " " + line.strip()
    return [(name, kind, "REQUIRED" in more, said.strip()) for name, kind, more, said in rows if kind and "," not in name]


class Help(InterfaceTest):
    def test_every_command_is_looked_at(self):
        shown = self.run_ok("--help")
        every = set(re.findall(r"(?m)^  ([a-z-]+) ", shown.split("Subcommands:")[1]))
        self.assertEqual(every, {command.split()[0] for command in COMMANDS + PYTHON_COMMANDS})
        kinds = set(re.findall(r"(?m)^  ([a-z]+) ", self.run_ok("plot", "--help")))
        self.assertEqual(kinds, {command.split()[1] for command in PYTHON_COMMANDS if command.startswith("plot ")})

    def test_values_have_types_ranges_and_defaults(self):
        seen = 0
        for command in COMMANDS:
            text = self.run_ok(*command.split(), "--help")
            self.assertNotIn("TEXT", text)
            for name, kind, required, said in options(text):
                with self.subTest(command=command, option=name):
                    seen += 1
                    self.assertTrue(required or "default: " in said or "; required" in said, said)
                    if kind in NUMBERS:
                        self.assertRegex(said, RANGE)
        self.assertGreater(seen, 90)

    def test_commands_in_python_say_them_too(self):
        for command in PYTHON_COMMANDS:
            text = self.run_ok(*command.split(), "--help")
            blocks = re.findall(r"(?m)^  (?:-[a-z] [\w.]+, )?(--[a-z][\w-]*) ([A-Z{][^\n]*(?:\n {10,}[^\n]*)*)", text)
            self.assertTrue(blocks, command)
            for name, rest in blocks:
                with self.subTest(command=command, option=name):
                    said = " ".join(rest.split())
                    self.assertRegex(said, r"default: .|; required$")
                    if said.split()[0] in NUMBERS and f"{command} {name}" not in WITHOUT_RANGE:
                        self.assertRegex(said, RANGE)

    def test_ranges_are_those_that_are_kept(self):
        run = ["run", "--network", "alexnet", "--strategy", "device", "--backend", "sim:h200"]
        for option, kind, _, said in options(self.run_ok("run", "--help")):
            least_and_most = re.search(r"(\d+(?:\.\d+)?) to (\d+)", said)
            if least_and_most and kind in NUMBERS:
                least, most = float(least_and_most[1]), int(least_and_most[2])
                self.run_refused(*run, option, most + 1, words=[option.lstrip("-")])
                self.run_refused(*run, option, "0", words=[option.lstrip("-")])
                self.assertGreater(most, least)


class Lists(InterfaceTest):
    def test_they_fit_a_page(self):
        for what in (["networks"], ["strategies"], ["strategies", "--all"], ["machines"]):
            for line in self.run_ok("list", *what).splitlines():
                self.assertLessEqual(len(line), WIDTH, line)

    def test_strategies_fit_a_screen_and_none_is_missing(self):
        shown = self.run_ok("list", "strategies")
        self.assertLessEqual(len(shown.splitlines()), SCREEN)
        summaries = self.run_ok("list", "strategies", "--all")
        names = re.findall(r"(?m)^  ([A-Za-z_]+) ", summaries)
        self.assertGreater(len(names), 30)
        self.assertEqual(set(names) - set(shown.split()), set())

    def test_single_advices_are_one_entry_and_still_names(self):
        shown = self.run_ok("list", "strategies", "--all")
        self.assertNotIn("read_mostly_weights", shown)
        self.assertIn("ADVICE_TENSORS", shown)
        for word in ("read_mostly", "accessed_by_device", "activation_gradients"):
            self.assertIn(word, shown)
        self.run_ok("plan", "--network", "conv", "--strategy", "read_mostly_weights", "--backend", "sim:h200")
        self.assertIn('"read_mostly_weights"', self.run_ok("list", "strategies", "--json"))

    def test_machines_are_few_lines_each(self):
        shown = self.run_ok("list", "machines").splitlines()
        names = [line for line in shown if re.match(r"  [a-z]", line)]
        self.assertLessEqual(len(shown), 1 + 5 * len(names))

    def test_operators_and_figures_are_named_as_files_name_them(self):
        operators = self.run_ok("list", "operators")
        self.assertRegex(operators, r"(?m)^  convolution +stride \(rows, columns\), pad \(rows, columns\), relu, groups$")
        self.assertRegex(operators, r"(?m)^  opaque +its own")
        self.assertRegex(self.run_ok("list", "figures"), r"(?m)^  uvm.fault_ns +ns +\w+$")

    def test_beginnings_of_names_are_found(self):
        run = ["run", "--network", "alexnet", "--strategy", "device", "--backend"]
        self.run_refused(*run, "sim:p100", words=["did you mean p100-pcie3-16g?"])
        self.run_refused(*run, "sim:GH200", words=["did you mean gh200?"])


class Memory(InterfaceTest):
    GIB = {"B": 2**-30, "KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "TiB": 1024.0}

    def parse_gib(self, text):
        value, unit = text.split()
        return float(value) * self.GIB[unit]

    def test_a_plan_says_why_it_is_larger_than_its_budget(self):
        """Every amount on the device in `plan`'s lines keeps to the budget or says why not."""
        for strategy in ("device", "managed", "managed_prefetch", "twin", "swap_all", "best", "best_managed"):
            for ratio in ("0.9", "2"):
                quickly = ["--knob", "effort=0"] if strategy.startswith("best") else []
                done = self.umbench("plan", "--network", "vgg16", "--batch", "32", "--strategy", strategy, "--ratio", ratio,
                                    "--backend", "sim:h200", *quickly)
                if done.returncode:
                    self.assertIn("infeasible", done.stderr)
                    continue
                budget = self.parse_gib(re.search(r"budget +(\S+ \S+)", done.stdout)[1])
                peak = re.search(r"peak +(\S+ \S+) of device memory in use(.*)", done.stdout)
                self.assertLessEqual(self.parse_gib(peak[1]), budget * 1.006, done.stdout)
                device, managed, why = re.search(r"arenas +device (\S+ \S+), managed (\S+ [KMGT]?i?B)(.*), pinned", done.stdout).groups()
                self.assertEqual(self.parse_gib(device) + self.parse_gib(managed) > budget * 1.006, "on the device at once" in why, done.stdout)


class Insize(InterfaceTest):
    GRID = {"network": "alexnet", "batch": 2, "strategy": "device", "backend": "sim:h200"}

    def listed_cells(self, **fields):
        return self.run_ok("sweep", self.write_sweep(common={}, grids=[self.GRID | fields]), "--list").splitlines()[:-1]

    def test_it_is_an_axis(self):
        axis = self.listed_cells(insize=[224, 448], batch=[2, 4])
        self.assertEqual(len(axis), 4)
        self.assertEqual(axis, self.listed_cells(network_knobs={"insize": [224, 448]}, batch=[2, 4]))

    def test_it_stands_once(self):
        self.run_refused("sweep", self.write_sweep(common={}, grids=[self.GRID | {"insize": 224, "network_knobs": {"insize": 448}}]), "--list",
                         words=["grids[0]", "insize", "keep one"])
        self.run_refused("sweep", self.write_sweep(common={}, grids=[self.GRID | {"insize": 0}]), "--list", words=["insize"])


class Spread(InterfaceTest):
    def test_run_tells_median_quartiles_and_how_many(self):
        shown = self.run_ok("run", "--network", "alexnet", "--batch", "2", "--strategy", "managed", "--ratio", "1.5", "--backend",
                            "sim:h200", "--iterations", "6")
        self.assertRegex(shown, r"iteration  first \S+ \S+, then \S+ \S+ \(median; quartiles \S+ \S+ and \S+ \S+, n = 5\)")
        shown = self.run_ok("run", "--network", "conv", "--strategy", "device", "--backend", "sim:h200", "--iterations", "1")
        self.assertRegex(shown, r"iteration  first \S+ \S+, then \S+ \S+ \(median, n = 1\)")
