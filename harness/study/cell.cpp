#include "harness/study/cell.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/backend.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

constexpr std::string_view plan_prefix = "plan:";

const network_family& find_network_family(const std::string& name) {
  std::vector<std::string> known;
  for (const network_family& f : network_families()) {
    if (f.name == name) return f;
    known.push_back(f.name);
  }
  throw input_error(unknown_name("network", name, known) + "; or a graph file of your own, FILE.json");
}

bool runs_on(run_mode mode, bool simulated) {
  const mode_row& facts = facts_of_mode(mode);
  return simulated ? facts.runs_simulated : facts.runs_on_gpu;
}

// The modes that a backend supports without permission, such as "simulated or capped".
std::string modes_text(bool simulated) {
  std::vector<std::string_view> names;
  for (const run_mode mode : all_values<run_mode>()) {
    if (runs_on(mode, simulated) && !facts_of_mode(mode).needs_permission) names.push_back(to_text(mode));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

void complete_mode(experiment& e, bool simulated) {
  const run_mode mode = e.mode.value_or(simulated ? run_mode::simulated : run_mode::capped);
  if (!runs_on(mode, simulated)) {
    throw input_error(
        fmt::format("mode {} does not exist on {}; use {}", to_text(mode), e.backend, modes_text(simulated)));
  }
  if (facts_of_mode(mode).needs_permission && !e.allow_native) {
    throw input_error(
        "mode native is refused: it lets the GPU's driver evict by itself, and driver defects can hang the "
        "GPU "
        "there until a reboot; use capped, or allow it with --allow-native-oversubscription on a GPU that "
        "nobody else needs");
  }
  e.mode = mode;
}

void complete_workspace_cap(experiment& e, bool simulated) {
  if (simulated && e.workspace_cap) {
    throw input_error(
        fmt::format("a workspace cap means nothing on {}: simulated operators use no workspace; leave it out",
                    e.backend));
  }
  if (!simulated) e.workspace_cap = e.workspace_cap.value_or(standard_workspace_cap);
}

void refuse_ratio_with_budget(const experiment& e) {
  if (e.ratio && e.budget) {
    throw input_error("both a ratio and a budget are given; keep one (ratio = footprint / budget)");
  }
}

// A text such as ",ahead=4" for every knob that differs from its default.
template <class Knob>
std::string changed_knobs(const std::vector<Knob>& knobs, const std::map<std::string, std::int64_t>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    const auto row = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
    if (row == knobs.end() || row->default_value != value) text += fmt::format(",{}={}", name, value);
  }
  return text;
}

// The ratio with two or more digits, as many as it needs: "x1.50", "x1.125".
std::string ratio_text(double ratio) {
  const std::string shortest = fmt::format("{}", ratio), two = fmt::format("{:.2f}", ratio);
  const std::size_t point = shortest.find('.');
  const bool longer = point != std::string::npos && shortest.size() - point > 3;
  return "x" + (longer ? shortest : two);
}

std::string amount_text(const experiment& e) {
  if (e.ratio) return ratio_text(*e.ratio);
  return e.budget ? fmt::format("{}B", *e.budget) : "whole";
}

// ",workspace=268435456B" if the cap is not the standard one, else "".
std::string workspace_text(const experiment& e) {
  const byte_count cap = e.workspace_cap.value_or(standard_workspace_cap);
  return cap == standard_workspace_cap ? "" : fmt::format(",workspace={}B", cap);
}

knob_values complete_knobs_of_user(const strategy& s, const knob_values& given) {
  try {
    return complete_knobs(s, given);
  } catch (const std::invalid_argument& error) {
    throw input_error(one_line(error.what()));
  }
}

std::string key_text(const cell& c, const std::string& amount) {
  const network_spec& n = c.network.spec;
  const auto network_knobs =
      c.network.family != nullptr ? c.network.family->knobs : std::vector<network_knob>{};
  return fmt::format(
      "{}{}/b{}/{}{}/{}/{}{}/{}{}{}/{}/{}", n.name, changed_knobs(network_knobs, n.knobs), n.batch,
      to_text(n.mode), optimizer_text(n), to_text(n.fusion_mode), storage_text(n), workspace_text(c.settings),
      c.settings.strategy,
      changed_knobs(c.strategy ? c.strategy->row.knobs : std::vector<knob>{}, c.settings.strategy_knobs),
      amount, to_text(c.settings.mode.value()), c.settings.backend);
}

cell with_keys(cell c) {
  c.key = key_text(c, "/" + amount_text(c.settings));
  c.line_key = key_text(c, "");
  return c;
}

bool computes_whole_operators(const memory_plan& plan) {
  return std::ranges::all_of(plan.actions, [](const action& a) {
    const auto* c = std::get_if<compute>(&a);
    return c == nullptr || is_whole(c->part);
  });
}

// Completes a cell that has its strategy or its plan.
cell complete_cell(cell c, experiment e, built_network network) {
  refuse_ratio_with_budget(e);
  c.backend = parse_backend(e.backend);
  e.network = network.spec;
  complete_mode(e, c.backend.is_simulated);
  complete_workspace_cap(e, c.backend.is_simulated);
  c.settings = std::move(e);
  c.network = std::move(network);
  return with_keys(std::move(c));
}

strategy_choice choose_strategy(const experiment& e) {
  if (e.strategy.starts_with(plan_prefix)) {
    throw input_error(fmt::format("strategy {} is a plan from a file; give the file by --plan", e.strategy));
  }
  return e.rules ? strategy_from_rules(*e.rules) : strategy_named(e.strategy);
}

}  // namespace

built_network complete_and_build(network_spec spec) {
  if (spec.imported_graph) {
    auto g = spec.imported_graph;
    return {std::move(spec), nullptr, std::move(g)};
  }
  const network_family& family = find_network_family(spec.name);
  std::vector<std::string> known;
  for (const network_knob& k : family.knobs) known.push_back(k.name);
  for (const auto& [name, value] : spec.knobs) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw input_error(unknown_name("knob of network " + spec.name, name, known));
    }
  }
  for (const network_knob& k : family.knobs) spec.knobs.emplace(k.name, k.default_value);
  spec.order = spec.order.value_or(standard_order(spec.arithmetic));
  if (const auto defect = update_defect(spec)) throw input_error(*defect);
  try {
    auto g = std::make_shared<const graph>(build_network(spec));
    return {std::move(spec), &family, std::move(g)};
  } catch (const std::invalid_argument& error) {
    throw input_error(one_line(error.what()));
  }
}

cell complete_cell(experiment e, built_network network, strategy_choice choice) {
  e.strategy_knobs = complete_knobs_of_user(choice->row, e.strategy_knobs);
  cell c;
  c.strategy = std::move(choice);
  return complete_cell(std::move(c), std::move(e), std::move(network));
}

cell complete_cell(experiment e, std::optional<plan_file> plan) {
  cell c;
  c.plan = std::move(plan);
  built_network network =
      c.plan && c.plan->network.spec == e.network ? c.plan->network : complete_and_build(e.network);
  if (c.plan) return complete_cell(std::move(c), std::move(e), std::move(network));
  strategy_choice how = choose_strategy(e);
  return complete_cell(std::move(e), std::move(network), std::move(how));
}

cell with_strategy(const cell& setting, strategy_choice choice) {
  experiment e = setting.settings;
  e.strategy = choice->row.name;
  e.rules = choice->has_own_rules ? choice->rules : std::nullopt;
  e.strategy_knobs.clear();
  cell c = complete_cell(std::move(e), setting.network, std::move(choice));
  c.planner_machine = setting.planner_machine;
  return c;
}

cell as_simulated_on(cell work, const machine& stand_in) {
  if (work.backend.is_simulated) return work;
  experiment& e = work.settings;
  e.backend = "sim:" + stand_in.name;
  e.workspace_cap.reset();
  if (!facts_of_mode(e.mode.value()).runs_simulated) e.mode = run_mode::simulated;
  work.backend = parse_backend(e.backend);
  work.planner_machine = stand_in;
  return with_keys(std::move(work));
}

family family_of(const cell& work) {
  if (work.strategy) return work.strategy->row.kind;
  const std::vector<residence>& home = work.plan.value().plan.residences;
  if (std::ranges::any_of(home, is_managed)) return family::managed;
  const bool on_device = std::ranges::all_of(home, [](residence r) { return r == residence::device; });
  return on_device ? family::device : family::explicit_;
}

bool has_baseline_bits(const cell& work) {
  if (work.strategy) return work.strategy->row.is_bit_exact;
  return !work.plan || computes_whole_operators(work.plan->plan);
}

bool is_tighter(const experiment& a, const experiment& b) {
  if (a.ratio && b.ratio) return *a.ratio > *b.ratio;
  return a.budget && b.budget && *a.budget < *b.budget;
}

}  // namespace um
