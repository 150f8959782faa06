// Makes, shows and checks machine files, which can be made from a data sheet without the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/figures.hpp"
#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/study/machines.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

struct figure_setting {
  const figure* of = nullptr;
  std::int64_t value = 0;
};

// "24.0 GiB", "1008 GB/s", "82.6 TFLOPS", "4000 ns", "3 %".
std::string figure_text(const figure& of, std::int64_t value) {
  const auto number = static_cast<double>(value);
  if (of.unit == "bytes") return to_text(static_cast<byte_count>(value));
  if (of.unit == "bytes/s") return fmt::format("{:.4g} GB/s", number / 1e9);
  if (of.unit == "operations/s") return fmt::format("{:.4g} TFLOPS", number / 1e12);
  if (of.unit == "percent") return fmt::format("{} %", value);
  return of.unit.empty() ? fmt::format("{}", value) : fmt::format("{} {}", value, of.unit);
}

struct unit {
  std::string_view suffix;
  double factor;
};

// Units of a figure's values; a number without a unit has the first. `example` appears in error messages.
struct unit_list {
  std::string_view of, example;
  std::vector<unit> known;
};

const unit_list& units_of_figure(const figure& f) {
  static const std::vector<unit_list> lists{
      {"bytes",
       "24GiB",
       {{"", 1},
        {"B", 1},
        {"kB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 1024.0},
        {"MiB", 1048576.0},
        {"GiB", 1073741824.0},
        {"TiB", 1099511627776.0}}},
      {"bytes/s",
       "25.1GB/s",
       {{"", 1},
        {"B/s", 1},
        {"MB/s", 1e6},
        {"GB/s", 1e9},
        {"TB/s", 1e12},
        {"MiB/s", 1048576.0},
        {"GiB/s", 1073741824.0}}},
      {"operations/s", "82.6TFLOPS", {{"", 1}, {"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}}},
      {"ns", "4us", {{"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}},
      {"percent", "90%", {{"", 1}, {"%", 1}}},
      {"", "132", {{"", 1}}},
  };
  return *std::ranges::find(lists, f.unit, &unit_list::of);
}

std::optional<double> parse_amount(std::string_view text, const unit_list& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  const auto found = std::ranges::find(units.known, suffix, &unit::suffix);
  if (found == units.known.end()) return std::nullopt;
  return number * found->factor;
}

std::int64_t parse_figure_value(const figure& f, std::string_view text) {
  const unit_list& units = units_of_figure(f);
  const auto value = parse_amount(text, units);
  const bool whole = value && std::abs(*value - std::round(*value)) < 1e-6 * std::max(1.0, std::abs(*value));
  if (!whole) {
    throw input_error(fmt::format("--set {}: \"{}\" is no such value; write for example {}", f.name,
                                  one_line(text.substr(0, 80)), units.example));
  }
  const auto min_value = static_cast<double>(f.min_value),
             max_value = static_cast<double>(std::min(f.max_value, std::int64_t{1} << 62));
  if (*value < min_value || *value > max_value) {
    throw input_error(fmt::format("--set {}: {} is not from {} to {}", f.name, one_line(text.substr(0, 80)),
                                  figure_text(f, f.min_value),
                                  figure_text(f, static_cast<std::int64_t>(max_value))));
  }
  return std::llround(*value);
}

const figure& find_figure(std::string_view name) {
  const auto found = std::ranges::find(figures(), name, &figure::name);
  if (found != figures().end()) return *found;
  std::vector<std::string> known;
  for (const figure& f : figures()) known.emplace_back(f.name);
  const std::string of_driver = fmt::format("uvm.{}", name);
  const bool is_of_driver = std::ranges::find(known, of_driver) != known.end();
  const std::string near = is_of_driver ? of_driver : nearest_name(name, known);
  throw input_error(fmt::format("--set {}: no such figure; {}`umbench list figures` names them",
                                one_line(name.substr(0, 80)),
                                near.empty() ? "" : fmt::format("did you mean {}? ", near)));
}

// A figure that depends on a link's rate, and that rate.
struct link_dependent_figure {
  std::string_view name;
  double (*rate)(const machine&);
};
constexpr link_dependent_figure link_dependent_figures[] = {
    {"link_both_bytes_per_s",
     [](const machine& m) {
       return static_cast<double>(m.link_to_device_bytes_per_s) +
              static_cast<double>(m.link_to_host_bytes_per_s);
     }},
    {"uvm.remote_read_bytes_per_s",
     [](const machine& m) { return static_cast<double>(m.link_to_device_bytes_per_s); }},
    {"uvm.remote_write_bytes_per_s",
     [](const machine& m) { return static_cast<double>(m.link_to_host_bytes_per_s); }},
};

// Parses options --set FIGURE=VALUE. A value without a unit is in the figure's own unit. Throws input_error
// for an unknown or repeated figure, or a value out of range.
std::vector<figure_setting> figure_settings(const std::vector<std::string>& options) {
  std::vector<figure_setting> all;
  for (const std::string& text : options) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw input_error(
          fmt::format("--set: \"{}\" is not of the form FIGURE=VALUE", one_line(text.substr(0, 80))));
    }
    const figure& f = find_figure(std::string_view(text).substr(0, equals));
    if (std::ranges::find(all, &f, &figure_setting::of) != all.end()) {
      throw input_error(fmt::format("--set {} is given more than once; keep one", f.name));
    }
    all.push_back({&f, parse_figure_value(f, std::string_view(text).substr(equals + 1))});
  }
  return all;
}

// A machine that was not measured: `base` with the figures of `set`. Rates of base that depend on its link
// (both directions at once, kernels' accesses) are scaled with the link's rate unless they are set;
// `scaled_names` receives their names. Every figure is marked as estimated.
machine derived_machine(machine base, const std::vector<figure_setting>& set,
                        std::vector<std::string>& scaled_names) {
  const machine before = base;
  const auto is_set = [&](std::string_view name) {
    return std::ranges::any_of(set, [&](const figure_setting& s) { return s.of->name == name; });
  };
  for (const figure_setting& s : set) set_value(base, *s.of, s.value);
  for (const auto& [name, rate] : link_dependent_figures) {
    if (is_set(name) || rate(before) <= 0 || rate(base) == rate(before)) continue;
    const figure& f = find_figure(name);
    set_value(base, f, std::llround(static_cast<double>(value_of(before, f)) * rate(base) / rate(before)));
    scaled_names.emplace_back(name);
  }
  std::erase_if(base.borrowed, is_set);
  std::erase_if(base.uncertain_figures, [&](const uncertain_figure& w) { return is_set(w.name); });
  base.calibrated = false;
  base.estimated.clear();
  for (const figure& f : figures()) {
    if (std::ranges::find(base.borrowed, f.name) == base.borrowed.end()) base.estimated.emplace_back(f.name);
  }
  return base;
}

std::vector<std::string> names_of(const std::vector<figure_setting>& set) {
  std::vector<std::string> names;
  for (const figure_setting& s : set) names.emplace_back(s.of->name);
  return names;
}

// Without a base machine, all figures have to be set.
void require_all_figures(const std::string& name, const std::vector<figure_setting>& set) {
  const std::vector<std::string> given = names_of(set);
  std::vector<std::string> missing;
  for (const figure& f : figures()) {
    if (!f.is_optional && std::ranges::find(given, f.name) == given.end()) missing.emplace_back(f.name);
  }
  if (missing.empty()) return;
  throw input_error(fmt::format(
      "machine new {}: {} figures are missing: {}; set them, or name a machine that lends them by --from",
      one_line(name), missing.size(), fmt::join(missing, ", ")));
}

// A new machine whose fitted figures are all marked as borrowed, as in a file that omits them.
machine machine_with_borrowed_fitted_figures() {
  machine m;
  for (const figure& f : figures()) {
    if (f.source == figure_source::fitted) m.borrowed.emplace_back(f.name);
  }
  return m;
}

std::string describe_source(const machine_options& o, const std::vector<figure_setting>& set,
                            const machine* base) {
  std::string text = "Estimated throughout, nothing measured on this machine. ";
  text +=
      o.source.empty() ? fmt::format("Set without a source: {}.", fmt::join(names_of(set), ", ")) : o.source;
  if (base != nullptr) text += fmt::format(" All else as in machine file {}: {}", base->name, base->source);
  return text;
}

void print_machine_row(std::string_view label, const std::string& text) {
  constexpr std::size_t indent = 12;
  fmt::print("  {:<{}}{}\n", label, indent - 2, wrap_text(text, indent));
}

// Prints how many figures are known, and the most important assumptions.
void print_machine_notes(const machine& m) {
  const std::size_t all = figures().size(), guessed = m.estimated.size(), lent = m.borrowed.size();
  print_machine_row("figures", fmt::format("{} measured, {} estimated, {} taken from {}",
                                           all - guessed - lent, guessed, lent, standard_machine));
  const std::string kernels = unmeasured_kernels_warning(m);
  if (!kernels.empty()) print_machine_row("kernels", kernels);
}

// Writes a machine file from a base and the figures that --set gives.
int new_machine(const machine_options& o) {
  const auto machines = load_machines_from(o.machines);
  const std::vector<figure_setting> set = figure_settings(o.set);
  const machine* base = o.from.empty() ? nullptr : &find_machine(machines, o.from);
  if (base == nullptr) require_all_figures(o.name, set);
  if (set.empty()) throw input_error("machine new: nothing is set; give --set FIGURE=VALUE at least once");
  std::vector<std::string> scaled_names;
  machine made =
      derived_machine(base != nullptr ? *base : machine_with_borrowed_fitted_figures(), set, scaled_names);
  made.name = o.name;
  made.source = describe_source(o, set, base);
  const std::string text = to_json(made);
  made = machine_from_json(text, "machine new " + o.name);  // reads the text back, which checks it
  const std::string out = o.out.empty() ? o.name + ".json" : o.out;
  if (std::filesystem::exists(out)) {
    throw input_error(
        fmt::format("--out {}: is there already; remove it, or choose another file", one_line(out)));
  }
  check_output_file("--out", out);
  write_file(out, text);
  fmt::print("{}: machine {}, {} figures set{}\n", out, made.name, set.size(),
             base == nullptr ? "" : fmt::format(", the others of {}", base->name));
  if (!scaled_names.empty())
    print_machine_row("link", fmt::format("in proportion to it: {}", fmt::join(scaled_names, ", ")));
  print_machine_notes(made);
  const std::filesystem::path folder = std::filesystem::path(out).parent_path();
  print_machine_row(
      "use", fmt::format("--backend sim:{} --machines {}, where all .json files are machine files", made.name,
                         folder.empty() ? "." : folder.string()));
  return 0;
}

int show_machine(const machine_options& o) {
  const auto machines = load_machines_from(o.machines);
  const machine& m = find_machine(machines, o.name);
  if (o.json) {
    fmt::print("{}", to_json(m));
    return 0;
  }
  fmt::print("{}: {}\n", m.name, provenance(m));
  for (const figure& f : figures()) {
    const auto is_in = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, f.name) != names.end();
    };
    const char* how = is_in(m.borrowed) ? "of h200" : is_in(m.estimated) ? "estimated" : "measured";
    fmt::print("  {:<42} {:>14}  {}\n", f.name, figure_text(f, value_of(m, f)), how);
  }
  print_machine_notes(m);
  print_machine_row("source", m.source);
  return 0;
}

int check_machine(const machine_options& o) {
  const machine m = machine_from_json(read_file(o.name), o.name);
  fmt::print("{}: a complete machine file, {}\n", o.name, m.name);
  print_machine_notes(m);
  for (const machine& built_in : load_machines_from("")) {
    if (built_in.name == m.name) print_machine_row("name", "it replaces the built-in machine of that name");
  }
  return 0;
}

}  // namespace

int machine_command(const machine_options& o) {
  if (o.verb == "new") return new_machine(o);
  return o.verb == "show" ? show_machine(o) : check_machine(o);
}

}  // namespace um
