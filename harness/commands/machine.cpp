// Machine files for GPUs that are not present: made from a data sheet, shown, checked.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/commands/machine_values.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/json/machines.hpp"
#include "harness/study/machines.hpp"
#include "harness/study/summary.hpp"

namespace um {
namespace {

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

// A new machine. Every fitted figure counts as borrowed, as in a file that omits it.
machine machine_of_borrowed_figures() {
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
  const std::string kernels = kernels_text(m);
  if (!kernels.empty()) print_machine_row("kernels", kernels);
}

// Writes a machine file from a base and the figures that --set gives.
int new_machine(const machine_options& o) {
  const auto machines = load_machines_from(o.machines);
  const std::vector<figure_setting> set = figure_settings(o.set);
  const machine* base = o.from.empty() ? nullptr : &find_machine(machines, o.from);
  if (base == nullptr) require_all_figures(o.name, set);
  if (set.empty()) throw input_error("machine new: nothing is set; give --set FIGURE=VALUE at least once");
  std::vector<std::string> followed;
  machine made = derived_machine(base != nullptr ? *base : machine_of_borrowed_figures(), set, followed);
  made.name = o.name;
  made.source = describe_source(o, set, base);
  const std::string text = to_json(made);
  made = machine_from_json(text, "machine new " + o.name);  // reads it back
  const std::string out = o.out.empty() ? o.name + ".json" : o.out;
  if (std::filesystem::exists(out)) {
    throw input_error(
        fmt::format("--out {}: is there already; remove it, or choose another file", one_line(out)));
  }
  check_output_file("--out", out);
  write_file(out, text);
  fmt::print("{}: machine {}, {} figures set{}\n", out, made.name, set.size(),
             base == nullptr ? "" : fmt::format(", the others of {}", base->name));
  if (!followed.empty())
    print_machine_row("link", fmt::format("in proportion to it: {}", fmt::join(followed, ", ")));
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
