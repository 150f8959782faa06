"""`umbench pack`: addresses for the lifetimes of a file.

lifetimes/vgg16.csv is what VGG-16 holds, worked out here from its graph. Where a change means to change that, write it anew with
    UMBENCH=build/cpu/umbench /usr/bin/python3 tests/harness/interface_pack.py --write
"""

import json
import math
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from interface import PROGRAM, InterfaceTest, read_entries

VGG16 = Path(__file__).resolve().parent / "lifetimes" / "vgg16.csv"
CELL = ["--network", "vgg16", "--batch", "32", "--strategy", "device", "--backend", "sim:h200"]
BYTES = {"f32": 4, "i32": 4, "u8": 1}
ALIGNMENT = 256
PERSIST = {"input", "label", "parameter"}  # held from the start of an iteration to its end
SURVIVE = PERSIST | {"parameter_gradient", "output"}  # to its end


def aligned_bytes(tensor):
    return -(-math.prod(tensor["shape"]) * BYTES[tensor["type"]] // ALIGNMENT) * ALIGNMENT


def lifetime_lines_of(graph):
    """Lines of a lifetimes file: each tensor from its first operator to its last; one that takes another's place is that one."""
    ops = graph["ops"]
    uses = {tensor["name"]: [] for tensor in graph["tensors"]}
    for time, op in enumerate(ops):
        for name in {*op["in"], *op["out"]}:
            uses[name].append(time)
    lives = {}
    for tensor in graph["tensors"]:
        times = uses[tensor["name"]]
        begin = 0 if tensor["use"] in PERSIST else times[0]
        end = len(ops) if tensor["use"] in SURVIVE else times[-1] + 1
        lives[tensor["name"]] = [aligned_bytes(tensor), begin, end, times]
    root = {}
    for time, op in enumerate(ops):
        if not op["alias"]:
            continue
        giver, heir = op["in"][op["alias"]["input"]], op["out"][op["alias"]["output"]]
        first = root.get(giver, giver)
        if lives[first][2] == time + 1 and lives[heir][1] == time and lives[first][0] == lives[heir][0]:
            _, _, lives[first][2], times = lives.pop(heir)
            lives[first][3] = sorted({*lives[first][3], *times})
            root[heir] = first
    return "".join(f"{name},{size},{begin},{end},{' '.join(map(str, times))}\n"
                   for name, (size, begin, end, times) in lives.items())


def lifetime_lines_of_vgg16(folder):
    graph = Path(folder) / "graph.json"
    subprocess.run([PROGRAM, "plan", *CELL, "--graph", graph], check=True, stdout=subprocess.DEVNULL)
    return ("# VGG-16, trained with 32 images a batch, fused, fp32. Times are operators.\nid,bytes,begin,end,accesses\n"
            + lifetime_lines_of(json.loads(graph.read_text(encoding="utf-8"))))


class Pack(InterfaceTest):
    def packed_rows(self, *arguments, exit_code=0):
        done = self.umbench("pack", *arguments)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        rows = re.findall(r"(?m)^ *(\w+) +(\d+) +(\d+) +(\d\.\d{4}) +\d+\.\d\d(?:  (.*))?$", done.stdout)
        return {name: (int(peak), int(arena), float(ratio), verdict) for name, peak, arena, ratio, verdict in rows}

    def test_the_kept_file_is_our_own_vgg16(self):
        self.assertEqual(VGG16.read_text(encoding="utf-8"), lifetime_lines_of_vgg16(self.folder))

    def test_packing_a_file_gives_what_packing_the_network_gives(self):
        self.run_ok("run", *CELL, "--iterations", "1", "--out", "out.jsonl")
        memory = read_entries(self.folder / "out.jsonl")[1][-1]["memory"]
        peak, arena, ratio, _ = self.packed_rows(VGG16, "--packer", "searched")["searched"]
        self.assertEqual(arena, memory["device_arena_bytes"])
        self.assertEqual(peak, memory["footprint_bytes"] - memory["terms"]["fragmentation_bytes"])
        self.assertAlmostEqual(ratio, arena / peak, places=4)

    def test_every_packer_has_a_row(self):
        rows = self.packed_rows(VGG16)
        self.assertEqual(list(rows), ["searched", "first_fit", "best_fit", "smartpool"])
        self.assertEqual(len({peak for peak, *_ in rows.values()}), 1)
        self.assertEqual(min(rows, key=lambda name: rows[name][1]), "searched")
        self.assertEqual(len({arena for _, arena, *_ in rows.values()}), 4)

    def test_addresses_are_those_of_the_packer(self):
        lives = self.write_file("a.csv", "a,100,0,2\nb,50,1,3\nc,100,2,4\n")
        for packer in ([], ["--packer", "smartpool"]):
            self.assertEqual(self.run_ok("pack", lives, "--addresses", *packer).split(), ["a,0", "b,100", "c,0"])
        self.run_refused("pack", lives, "--addresses", "--limit", "149", words=["--addresses", "--limit"])

    def test_a_limit_is_kept_to_or_not(self):
        lives = self.write_file("a.csv", "a,100,0,2\nb,50,1,3\n")
        self.assertEqual(self.packed_rows(lives, "--packer", "smartpool", "--limit", "150B")["smartpool"], (150, 150, 1.0, "fits"))
        self.assertEqual(self.packed_rows(lives, "--packer", "smartpool", "--limit", "149", exit_code=1)["smartpool"][3], "1 too much")

    def test_what_does_not_fit_is_swapped_between_two_accesses(self):
        mib = 1 << 20
        lives = self.write_file("a.csv", f"a,{4 * mib},0,9,0 8\nb,{2 * mib},0,9,1 7\nc,{3 * mib},3,5,3 4\nd,{mib - 1},0,9,0 8\n")
        rows = self.packed_rows(lives, "--packer", "smartpool", "--limit", "8MiB")
        self.assertEqual(rows["smartpool"], (10 * mib - 1, 10 * mib - 1, 1.0, f"{2 * mib - 1} too much"))
        # b alone is enough and less than a; d is below 1 MiB.
        self.assertEqual(rows["swapped"], (8 * mib - 1, 8 * mib - 1, 1.0, f"fits; 1 leave, {2 * mib} bytes each way"))
        rows = self.packed_rows(lives, "--packer", "smartpool", "--limit", "7MiB")
        self.assertEqual(rows["swapped"][3], f"fits; 1 leave, {4 * mib} bytes each way")
        rows = self.packed_rows(lives, "--packer", "smartpool", "--limit", "2MiB", exit_code=1)
        self.assertIn("too much; 2 leave", rows["swapped"][3])
        without_accesses = self.write_file("b.csv", f"a,{4 * mib},0,9\nb,{2 * mib},0,9\n")
        self.assertEqual(list(self.packed_rows(without_accesses, "--packer", "smartpool", "--limit", "5MiB", exit_code=1)), ["smartpool"])

    def test_a_chain_swaps_into_half_of_what_it_keeps(self):
        # Forward, map i is made at i and read at i + 1; backward, it is read for the last time at 40 - i.
        mib = 1 << 20
        lives = self.write_file("a.csv", "".join(f"m{i},{4 * mib},{i},{41 - i},{i} {i + 1} {40 - i}\n" for i in range(20)))
        rows = self.packed_rows(lives, "--packer", "smartpool", "--limit", "40MiB")
        self.assertEqual(rows["smartpool"][0], 80 * mib)
        peak, arena, _, verdict = rows["swapped"]
        self.assertLessEqual(arena, 40 * mib)
        leave, moved = map(int, re.fullmatch("fits; ([0-9]+) leave, ([0-9]+) bytes each way", verdict).groups())
        self.assertEqual(moved, leave * 4 * mib)
        self.assertIn(leave, range(10, 15))

    def test_what_a_file_may_look_like(self):
        for text in ["id,bytes,begin,end\nx,100,0,5\ny,28,5,9\n", "x,100,0,5\r\ny,28,5,9\r\n", " x , 100, 0, 5 \n\n# y\ny,28,5,9",
                     "x,100,0,5,0,1 2,4\ny,28,5,9,5 8\n", "x,100,0,5000000000000\nx,28,5000000000000,18446744073709551615\n"]:
            self.assertEqual(self.packed_rows(self.write_file("a.csv", text), "--packer", "best_fit")["best_fit"][:2], (100, 100), text)
        self.assertEqual(self.packed_rows(self.write_file("a.csv", "x,0,0,5\n"), "--packer", "best_fit")["best_fit"][:3], (0, 0, 1.0))

    def test_a_broken_file_is_refused_with_its_line(self):
        for line, words in [("y,28,5", ["no end"]), ("y", ["no bytes"]), (",28,5,9", ["id is empty"]), ("y,28,9,9", ["ends at 9"]),
                            ("y,-28,5,9", ["bytes", "\"-28\""]), ("y,28.5,5,9", ["bytes", "\"28.5\""]), ("y,28,,9", ["begin", "\"\""]),
                            ("y,28,5,18446744073709551616", ["end", "18446744073709551616"]),
                            ("y,28,5,9,5 x", ["access time \"x\""]), ("y,28,5,9,9", ["access time 9", "from 5"]),
                            ("y,28,5,9,4", ["access time 4", "from 5"]), ("y,28,5,9,7 6", ["6", "after 7", "ascend"]),
                            ("y,72057594037927937,5,9", ["more than 64.0 PiB"]), ("id,bytes,begin,end", ["bytes", "\"bytes\""])]:
            self.run_refused("pack", self.write_file("a.csv", f"x,100,0,5\n{line}\n"), words=["a.csv: line 2: ", *words])
        self.run_refused("pack", self.write_file("a.csv", "id,bytes,begin,end\n"), words=["a.csv", "holds no lifetime"])
        self.run_refused("pack", "none.csv", words=["none.csv"])

    def test_options_that_are_none(self):
        self.run_refused("pack", VGG16, "--packer", "smartpol", words=["--packer", "\"smartpol\"", "did you mean smartpool?"])
        self.run_refused("pack", VGG16, "--limit", "0", words=["--limit", "4GiB"])
        self.run_refused("pack", words=["FILE"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        VGG16.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as there:
            VGG16.write_text(lifetime_lines_of_vgg16(there), encoding="utf-8")
    else:
        unittest.main()
