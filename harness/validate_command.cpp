#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/cells.hpp"
#include "harness/commands.hpp"
#include "harness/record_file.hpp"
#include "harness/suggest.hpp"
#include "harness/summary.hpp"
#include "harness/validation.hpp"

namespace um {
namespace {

std::string quantity(double value, const std::string& unit) {
  if (unit == "times") return fmt::format("{:.2f}x", value);
  if (unit == "GB/s") return fmt::format("{:.2f} GB/s", value);
  return value < 1e6 ? fmt::format("{:.1f} us", value / 1e3) : fmt::format("{:.1f} ms", value / 1e6);
}

std::string known_text(const comparison& c) {
  if (c.least == c.most) return quantity(c.least, c.unit);
  return fmt::format("{} to {}", quantity(c.least, c.unit), quantity(c.most, c.unit));
}

// "+12 %" off the nearer end of what is known, "in range" inside it.
std::string deviation_text(const comparison& c) {
  const double d = deviation_of(c);
  return d == 0 ? "in range" : fmt::format("{:+.0f} %", 100 * d);
}

void print_summary(const std::string& what, const std::vector<comparison>& all) {
  std::vector<double> off;
  for (const comparison& c : all) off.push_back(std::abs(deviation_of(c)));
  if (off.empty()) return;
  std::sort(off.begin(), off.end());
  fmt::print("{}: {} figures, median {:.0f} % off, worst {:.0f} %\n\n", what, off.size(),
             100 * off[off.size() / 2], 100 * off.back());
}

void print_figures(const std::string& file, const std::vector<machine>& machines) {
  fmt::print("{}\n\n| machine | figure | known | simulated | off | |\n|---|---|---|---|---|---|\n", file);
  std::vector<comparison> checks, inputs;
  std::set<std::string> used;
  for (const known_figure& f : known_figures_from_json(read_file(file), file)) {
    const comparison c = compare_figure(f, machines);
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", c.group, c.name, known_text(c),
               quantity(c.predicted, c.unit), deviation_text(c), c.input ? "input" : "");
    (c.input ? inputs : checks).push_back(c);
    used.insert(f.machine);
  }
  fmt::print("\n");
  for (const std::string& name : used) {
    fmt::print("machine file {}: {}\n", name, provenance(machine_named(machines, name)));
  }
  fmt::print("\n");
  print_summary("what the machine file was worked out from", inputs);
  print_summary("what it was not", checks);
}

void print_records(const std::string& file, const machine& on) {
  fmt::print(
      "{} on machine file {}, {}\n\n| cell | strategy | first | simulated | off | then | simulated | off "
      "|\n|---|---|---|---|---|---|---|---|\n",
      file, on.name, provenance(on));
  std::vector<comparison> first, steady;
  const record_file records(file, open_mode::read);
  for (const record& r : records.earlier()) {
    const std::vector<comparison> both = compare_record(r, on);
    if (both.empty()) continue;
    fmt::print("| {} | {} |", both[0].group, both[0].name);
    for (const comparison& c : both) {
      fmt::print(" {} | {} | {} |", known_text(c), quantity(c.predicted, c.unit), deviation_text(c));
    }
    fmt::print("\n");
    first.push_back(both[0]);
    steady.push_back(both[1]);
  }
  fmt::print("\n");
  print_summary("first iterations", first);
  print_summary("later iterations", steady);
  const order_check order = check_order(steady);
  fmt::print("order of strategies that differ by more than 5 %: {} of {} pairs right\n",
             order.pairs - order.wrong.size(), order.pairs);
  for (const std::string& pair : order.wrong) fmt::print("  wrong: {}\n", pair);
  fmt::print("\n");
}

}  // namespace

int validate_command(const validate_options& options) {
  const std::vector<machine> machines = machines_in(options.machines);
  const machine& on = machine_named(machines, options.machine.empty() ? "h200" : options.machine);
  for (const std::string& file : options.files) {
    if (file.ends_with(".jsonl")) {
      print_records(file, on);
    } else if (file.ends_with(".json")) {
      print_figures(file, machines);
    } else {
      throw input_error(fmt::format("{}: give record files (.jsonl) or files of figures (.json)", file));
    }
  }
  return 0;
}

}  // namespace um
