#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/commands/limits.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/progress.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/json/record_file.hpp"
#include "harness/study/summary.hpp"
#include "harness/validate/validation.hpp"

namespace um {
namespace {

constexpr double close_enough = 0.15;

std::string quantity_text(double value, const std::string& unit) {
  if (unit == "times") return fmt::format("{:.2f}x", value);
  if (unit == "GB/s") return fmt::format("{:.2f} GB/s", value);
  if (unit == "ms") return fmt::format("{:.1f} ms", value);
  return value < 1e6 ? fmt::format("{:.1f} us", value / 1e3) : fmt::format("{:.1f} ms", value / 1e6);
}

std::string predicted_text(const comparison& c) {
  return c.missing_reason.empty() ? quantity_text(c.predicted, c.unit) : "not run";
}

std::string known_text(const comparison& c) {
  if (c.known_min == c.known_max) return quantity_text(c.known_min, c.unit);
  return fmt::format("{} to {}", quantity_text(c.known_min, c.unit), quantity_text(c.known_max, c.unit));
}

// "+12 %" beyond the nearer end of the known range, "in range" inside it.
std::string deviation_text(const comparison& c) {
  if (!c.missing_reason.empty()) return "";
  const double d = deviation_of(c);
  return d == 0 ? "in range" : fmt::format("{:+.0f} %", 100 * d);
}

// Prints how many predictions lie within the known range. Cells that did not run count as outside.
void print_summary(const std::string& title, const std::vector<comparison>& all) {
  if (all.empty()) return;
  std::vector<double> off;
  for (const comparison& c : all) {
    if (c.missing_reason.empty()) off.push_back(std::abs(deviation_of(c)));
  }
  std::sort(off.begin(), off.end());
  const auto near = std::upper_bound(off.begin(), off.end(), close_enough) - off.begin();
  fmt::print("{}: {} figures", title, all.size());
  if (off.size() < all.size()) fmt::print(", {} not run", all.size() - off.size());
  if (!off.empty())
    fmt::print(", median {:.0f} % off, worst {:.0f} %", 100 * off[off.size() / 2], 100 * off.back());
  fmt::print(", {} within {:.0f} %\n\n", near, 100 * close_enough);
}

std::vector<known_figure> figures_in(const std::string& file) {
  const process_limits within(file, process_limits::max_reading_time);
  return published_figures_from_json(read_file(file), file);
}

constexpr double near_enough = 1.5;

// The band, and whether the known value is inside: "1.2x to 3.4x, inside".
std::string band_text(const comparison& c) {
  if (!c.band) return "";
  return fmt::format("{} to {}, {}", quantity_text(c.band->low, c.unit), quantity_text(c.band->high, c.unit),
                     is_within_band(c) ? "inside" : "outside");
}

// For managed memory just above ratio 1: how many figures the band contains, and its width.
void print_figure_bands(const std::vector<comparison>& all) {
  std::size_t figures = 0, inside = 0;
  double widest = 1;
  for (const comparison& c : all) {
    if (!c.band) continue;
    ++figures;
    inside += is_within_band(c) ? 1 : 0;
    widest = std::max(widest, c.band->high / c.band->low);
  }
  if (figures == 0) return;
  fmt::print(
      "just above ratio 1: {} of {} figures lie inside the band, whose ends are at most {:.1f} times "
      "apart\n\n",
      inside, figures, widest);
}

std::string validation_verdict(const comparison& c) {
  if (!c.missing_reason.empty()) return "not run: " + c.missing_reason;
  const double off = deviation_factor(c);
  if (off == 1) return "in range";
  if (off <= 1 + close_enough) return "close";
  if (off <= near_enough) return fmt::format("within {}x", near_enough);
  return c.explanation.empty() ? "miss, not explained" : "miss: " + c.explanation;
}

// Prints the figures of one source, worst first.
void print_source(const std::string& source, std::vector<comparison> all) {
  std::ranges::stable_sort(all, std::ranges::greater{}, deviation_factor);
  fmt::print(
      "{}\n\n| machine | figure | known | simulated | off | band | verdict "
      "|\n|---|---|---|---|---|---|---|\n",
      source);
  for (const comparison& c : all) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {}{} |\n", c.group, c.name, known_text(c), predicted_text(c),
               deviation_text(c), band_text(c), validation_verdict(c),
               c.is_calibration_input ? " (input)" : "");
  }
  fmt::print("\n");
}

void print_figures(const std::string& file, const std::vector<machine>& machines) {
  fmt::print("{}\n\n", file);
  std::vector<comparison> checks, calibration_inputs;
  std::vector<std::string> sources;
  std::map<std::string, std::vector<comparison>> by_source;
  std::set<std::string> used;
  for (const known_figure& f : figures_in(file)) {
    const comparison c = compare_figure(f, machines);
    if (!by_source.contains(c.source)) sources.push_back(c.source);
    by_source[c.source].push_back(c);
    (c.is_calibration_input ? calibration_inputs : checks).push_back(c);
    used.insert(f.machine);
  }
  for (const std::string& source : sources) print_source(source, by_source.at(source));
  for (const std::string& name : used) {
    fmt::print("machine file {}: {}\n", name, provenance(find_machine(machines, name)));
  }
  fmt::print("\n");
  print_summary("what the machine file was worked out from", calibration_inputs);
  print_summary("what it was not", checks);
  print_figure_bands(checks);
  const auto near =
      std::ranges::count_if(checks, [](const comparison& c) { return deviation_factor(c) <= near_enough; });
  fmt::print("{} of {} figures that it was not worked out from are within {}x\n\n", near, checks.size(),
             near_enough);
}

// The part of a record's key that identifies network and workspace limit.
std::string network_key(const record& r) {
  return r.key.substr(0, r.key.find("/" + r.strategy + "/"));
}

// Groups the runs of a cell by the same build, in the order of first appearance. A run without operator times
// gets those of `device` by the same build, if the file has them.
std::vector<std::vector<record>> group_by_cell(const record_file& file) {
  const auto build_of = [&](std::size_t i) -> const std::string& {
    return file.environments()[file.environment_of(i)].umbench;
  };
  std::map<std::pair<std::string, std::string>, const record*> timed;
  for (std::size_t i = 0; i < file.earlier().size(); ++i) {
    const record& r = file.earlier()[i];
    if (r.engines && r.strategy == "device") timed.try_emplace({network_key(r), build_of(i)}, &r);
  }
  std::vector<std::vector<record>> cells;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (std::size_t i = 0; i < file.earlier().size(); ++i) {
    const record& r = file.earlier()[i];
    const auto [at, is_new] = known.try_emplace({r.key, build_of(i)}, cells.size());
    if (is_new) cells.emplace_back();
    cells[at->second].push_back(r);
    const auto device = timed.find({network_key(r), build_of(i)});
    if (!r.engines && device != timed.end()) cells[at->second].back().engines = device->second->engines;
  }
  return cells;
}

// The named machine, or the one for the GPU in the records.
const machine& machine_for(const record_file& records, const std::string& file,
                           const std::vector<machine>& machines, const std::string& named) {
  if (!named.empty()) return find_machine(machines, named);
  for (const record& r : records.earlier()) {
    if (r.simulated || !r.device) continue;
    if (const machine* akin = find_machine_like(machines, *r.device)) return *akin;
    throw input_error(
        fmt::format("{}: there is no machine file of {}; name one by --machine", file, *r.device));
  }
  return find_machine(machines, standard_machine);  // nothing was measured, so the machine does not matter
}

void print_records(const std::string& file, const std::vector<machine>& machines, const std::string& named) {
  const record_file records(file, open_mode::read);
  const machine& on = machine_for(records, file, machines, named);
  fmt::print(
      "{} on machine file {}, {}\n\n| cell | strategy | first | simulated | off | then | simulated | off | "
      "verdict "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      file, on.name, provenance(on));
  std::vector<cell_comparison> cells;
  for (const std::vector<record>& runs : group_by_cell(records)) {
    if (std::optional<cell_comparison> found = compare_cell(runs, on)) cells.push_back(std::move(*found));
  }
  std::ranges::stable_sort(cells, std::ranges::greater{},
                           [](const cell_comparison& c) { return deviation_factor(c.later_iterations); });
  std::vector<comparison> first, later, medians, same, moved;
  for (const cell_comparison& found : cells) {
    fmt::print("| {} | {} |", found.first_iteration.group, found.first_iteration.name);
    for (const comparison& c : {found.first_iteration, found.later_iterations}) {
      fmt::print(" {} | {} | {} |", known_text(c), predicted_text(c), deviation_text(c));
    }
    fmt::print(" {}{} |\n", validation_verdict(found.later_iterations),
               found.has_other_addresses ? ", other addresses" : "");
    first.push_back(found.first_iteration);
    later.push_back(found.later_iterations);
    (found.has_other_addresses ? moved : same).push_back(found.later_iterations);
    medians.push_back(found.later_iterations);
    medians.back().known_min = medians.back().known_max = found.later_median;
  }
  fmt::print("\n");
  print_summary("first iterations, least disturbed of all runs", first);
  print_summary("later iterations, least disturbed of all runs", later);
  print_summary("later iterations, their medians", medians);
  if (!moved.empty()) {
    print_summary("later iterations of cells with the record's addresses", same);
    print_summary("later iterations of cells that today's build gives other addresses", moved);
  }
  const order_check order = check_order(later);
  fmt::print("order of strategies that differ by more than 5 %: {} of {} pairs right\n",
             order.pair_count - order.wrong_pairs.size(), order.pair_count);
  for (const std::string& pair : order.wrong_pairs) fmt::print("  wrong: {}\n", pair);
  fmt::print("\n");
}

}  // namespace

int validate_command(const validate_options& options) {
  const std::vector<machine> machines = load_machines_from(options.machines);
  if (!options.machine.empty()) find_machine(machines, options.machine);
  const progress_thread line("simulating");
  for (const std::string& file : options.files) {
    if (file.ends_with(".jsonl")) {
      print_records(file, machines, options.machine);
    } else if (file.ends_with(".json")) {
      print_figures(file, machines);
    } else {
      throw input_error(fmt::format("{}: give record files (.jsonl) or files of figures (.json)", file));
    }
  }
  return 0;
}

}  // namespace um
