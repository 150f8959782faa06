#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/figures.hpp"
#include "harness/commands/cells.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/summary.hpp"
#include "hints/hints.hpp"
#include "networks/catalogue.hpp"

namespace um {
namespace {

constexpr std::size_t column = 22;  // column in which summaries begin

void print_row(std::string_view name, std::string_view summary) {
  const bool fits = name.size() + 4 <= column;
  fmt::print("  {:<{}}{}{}\n", name, fits ? column - 2 : name.size(),
             fits ? "" : "\n" + std::string(column, ' '), wrap_text(summary, column));
}

template <class Knob>
void print_knobs(const std::vector<Knob>& knobs, const char* option) {
  constexpr std::size_t indent = 6, deeper = 10;
  for (const Knob& k : knobs) {
    const std::string text = fmt::format("{} {}={}  {} ({} to {})", option, k.name, k.default_value,
                                         k.summary, k.min_value, k.max_value);
    fmt::print("{:{}}{}\n", "", indent, wrap_text(text, deeper, page_width));
  }
}

// The rule of a strategy whose only rule is advice for one role, else nullptr. There is such a strategy for
// every pair of advice and role.
const advice_rule* only_advice_of(const strategy& s) {
  const auto row = std::ranges::find(hint_table(), s.name, &hint_strategy::name);
  if (row == hint_table().end() || row->rules.size() != 1) return nullptr;
  return std::get_if<advice_rule>(&row->rules.front().policy);
}

void add_if_new(std::vector<std::string>& all, std::string name) {
  if (std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
}

struct option_value {
  std::string_view option, value, meaning;
};

// Prints the values of --fusion, --precision and --memory-order.
void list_network_option_values() {
  constexpr std::array<option_value, 9> values{{
      {"--fusion", to_text(fusion::fused),
       "operators joined wherever one pass over the data does for several"},
      {"", to_text(fusion::none),
       "convolution, bias, ReLU, normalisation and pool apart, as in the papers' frameworks"},
      {"", to_text(fusion::lean),
       "as fused, and cheap tensors are computed again where that lowers the peak"},
      {"", to_text(fusion::framework),
       "as none, and nothing shares memory: data and gradient of every layer, as in Caffe"},
      {"--precision", to_text(precision::fp32), "no TF32"},
      {"", to_text(precision::tf32), "operands of products rounded to TF32"},
      {"", to_text(precision::bf16),
       "inputs, activations and their gradients are bfloat16; weights, their gradients and sums fp32"},
      {"--memory-order", to_text(memory_order::nchw), "the default for fp32"},
      {"", to_text(memory_order::nhwc), "the default for tf32 and bf16"},
  }};
  static_assert(values.size() ==
                enum_names<fusion>.size() + enum_names<precision>.size() + enum_names<memory_order>.size());
  fmt::print("each of them with\n");
  constexpr std::size_t indent = 30;
  for (const option_value& v : values) {
    fmt::print("  {:<17} {:<9} {}\n", v.option, v.value, wrap_text(v.meaning, indent));
  }
}

void list_networks() {
  fmt::print("networks (--network)\n");
  for (const network_family& f : network_families()) {
    print_row(f.name, f.summary);
    print_knobs(f.knobs, "--set");
  }
  list_network_option_values();
}

// Prints names only, grouped by technique; fits a screen.
void list_strategies_by_technique() {
  fmt::print("strategies (--strategy) by what they ask of a program; --all has summaries and knobs\n");
  for (const memory_technique way : all_values<memory_technique>()) {
    std::vector<std::string> names;
    for (const strategy& s : strategies()) {
      if (technique_of(s) == way && only_advice_of(s) == nullptr) names.push_back(s.name);
    }
    if (way == memory_technique::managed_hints) names.emplace_back("ADVICE_TENSORS");
    constexpr std::size_t indent = 31;
    const std::string text = fmt::format("{}", fmt::join(names, " "));
    if (!names.empty()) fmt::print("  {:<{}}{}\n", to_text(way), indent - 2, wrap_text(text, indent));
  }
}

void list_strategies() {
  fmt::print("strategies (--strategy)\n");
  std::vector<std::string> advices, kinds;
  for (const strategy& s : strategies()) {
    if (const advice_rule* single = only_advice_of(s)) {
      const std::string advised(to_text(single->hint));
      add_if_new(advices, advised);
      add_if_new(kinds, s.name.substr(advised.size() + 1));
      continue;
    }
    print_row(s.name, s.summary);
    print_knobs(s.knobs, "--knob");
  }
  print_row("ADVICE_TENSORS",
            fmt::format("one advice for tensors of one kind, nothing else; ADVICE: {}; TENSORS: {}",
                        fmt::join(advices, ", "), fmt::join(kinds, ", ")));
}

void list_machines(const std::vector<machine>& machines) {
  constexpr std::size_t max_length = 150;
  fmt::print("machines (--backend sim:NAME); their files say where each figure is from\n");
  for (const machine& m : machines) {
    print_row(m.name,
              fmt::format("{} device, {} host; {}. {}", to_text(m.device_bytes), to_text(m.host_bytes),
                          provenance(m), first_sentence(m.source, max_length)));
  }
}

// Prints the figures of a machine file and where they come from.
void list_machine_figures() {
  fmt::print("figures of a machine (core/machine.hpp)\n");
  for (const figure& f : figures()) {
    fmt::print("  {:<42} {:<12} {}\n", f.name, f.unit, to_text(f.source));
  }
}

struct attribute_name_collector {
  std::vector<std::string>& all;
  void pair(const char* name, std::int32_t, std::int32_t, std::int64_t) const {
    all.push_back(std::string(name) + " (rows, columns)");
  }
  void integer(const char* name, std::int32_t, std::int64_t) const { all.emplace_back(name); }
  void integer_or(const char* name, std::int32_t, std::int64_t) const { all.emplace_back(name); }
  void flag(const char* name, bool) const { all.emplace_back(name); }
  void number(const char* name, float, double, double) const { all.emplace_back(name); }
};

// Prints the kinds of operators, as graph files name them, and their attributes.
void list_operators() {
  fmt::print("kinds of operators in graph files; core/operators.hpp has their operands\n");
  for (const op_attributes& kind : every_kind()) {
    std::vector<std::string> names;
    std::visit(overloaded{[&](const opaque&) { names.emplace_back("its own (docs/networks.md)"); },
                          [&](const auto& a) { fields_of(a, attribute_name_collector{names}); }},
               kind.value);
    fmt::print("  {:<32}{}\n", kind_of(kind), fmt::join(names, ", "));
  }
}

}  // namespace

int list_command(const list_options& options) {
  const std::string& what = options.what;
  const std::vector<std::pair<std::string, std::string (*)()>> schemas{
      {"schema", record_schema},    {"sweep-schema", sweep_schema}, {"graph-schema", graph_schema},
      {"plan-schema", plan_schema}, {"rules-schema", rules_schema}, {"machine-schema", machine_schema}};
  std::vector<std::string> known{"networks", "strategies", "machines", "figures", "operators"};
  for (const auto& [name, make] : schemas) known.push_back(name);
  if (!what.empty() && std::find(known.begin(), known.end(), what) == known.end()) {
    throw input_error(unknown_name("list", what, known));
  }
  if (options.json) {
    if (what != "strategies") throw input_error("--json is for `umbench list strategies`");
    fmt::print("{}\n", to_json(strategies()));
    return 0;
  }
  for (const auto& [name, make] : schemas) {
    if (what != name) continue;
    fmt::print("{}", make());
    return 0;
  }
  const bool lists_machines = what.empty() || what == "machines";
  const auto machines = lists_machines || !options.machines.empty() ? load_machines_from(options.machines)
                                                                    : std::vector<machine>{};
  if (what.empty() || what == "networks") list_networks();
  if (what.empty() || what == "strategies") options.all ? list_strategies() : list_strategies_by_technique();
  if (lists_machines) list_machines(machines);
  if (what == "figures") list_machine_figures();
  if (what == "operators") list_operators();
  return 0;
}

}  // namespace um
