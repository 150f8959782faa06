// The table of named hint strategies.
#include <algorithm>
#include <array>
#include <utility>

#include "hints/hints.hpp"

namespace um {
namespace {

using enum role;

const tensor_choice everything{};
const tensor_choice weights{{parameter}, tensor_use::any};
const tensor_choice transient{{activation, activation_gradient}, tensor_use::any};
// Gradients of weights are dead from the start of an iteration until they are written.
const tensor_choice discardable{{activation, activation_gradient, parameter_gradient}, tensor_use::any};

prefetch_rule prefetch_ops_ahead(operand_side of, std::int64_t ahead) {
  return {of, look_ahead_unit::operators, ahead, fetch_source::network};
}

// All hint strategies, and which of them are advised.
struct strategy_table {
  std::vector<hint_strategy> strategies;
  std::vector<std::size_t> advised_indices;  // indices of strategies that `umbench advise` tries by default
  void add(hint_strategy s, bool is_advised = false) {
    if (is_advised) advised_indices.push_back(strategies.size());
    strategies.push_back(std::move(s));
  }
};

void append_advice_rows(strategy_table& rows) {
  struct tensor_kind {
    std::string_view name;
    role use;
  };
  constexpr std::array<tensor_kind, 5> kinds{{{"weights", parameter},
                                              {"weight_gradients", parameter_gradient},
                                              {"activations", activation},
                                              {"activation_gradients", activation_gradient},
                                              {"inputs", input}}};
  for (const advice hint :
       {advice::read_mostly, advice::preferred_device, advice::preferred_host, advice::accessed_by_device}) {
    for (const tensor_kind& k : kinds) {
      const std::string name = std::string(to_text(hint)) + "_" + std::string(k.name);
      rows.add({name,
                "advice " + std::string(to_text(hint)) + " for " + std::string(k.name) + " alone",
                {{"advice", {{k.use}, tensor_use::any}, advice_rule{hint}}}});
    }
  }
}

void append_driver_call_rows(strategy_table& rows) {
  rows.add({"managed", "cudaMallocManaged without any hint", {}}, true);
  rows.add({"managed_advise",
            "parameters and gradients prefer the device, inputs are read-mostly",
            {{"weights", {{parameter, parameter_gradient}, {}}, advice_rule{advice::preferred_device}},
             {"inputs", {{input}, {}}, advice_rule{advice::read_mostly}}}},
           true);
  rows.add({"managed_prefetch",
            "prefetch what an operator reads and writes `ahead` operators before it",
            {{"prefetch", everything, prefetch_ops_ahead(operand_side::both, 2)}}},
           true);
  rows.add({"prefetch_inputs",
            "prefetch what an operator reads `ahead` operators before it",
            {{"prefetch", everything, prefetch_ops_ahead(operand_side::inputs, 2)}}});
  rows.add({"prefetch_outputs",
            "prefetch what an operator writes `ahead` operators before it",
            {{"prefetch", everything, prefetch_ops_ahead(operand_side::outputs, 2)}}});
  rows.add({"zero_copy",
            "activations and their gradients stay on the host, kernels reach them over the link",
            {{"home", transient, advice_rule{advice::preferred_host}},
             {"access", transient, advice_rule{advice::accessed_by_device}}}},
           true);
}

const evict_rule behind{evict_when::after_use, evict_order::driver, 4, evict_means::prefetch_to_host};

void append_eviction_rows(strategy_table& rows) {
  const tensor_choice kept{{activation, input}, tensor_use::needed_again};
  rows.add({"evict_behind",
            "prefetch to the host what is not used again for `gap` operators, right after its use",
            {{"prefetch", everything, prefetch_ops_ahead(operand_side::inputs, 2)},
             {"evict", kept, behind},
             {"cut", everything, cut_rule{}}}});
  rows.add({"discard",
            "discard dead activations and gradients (Zhu et al., IISWC 2022), populate before a write",
            {{"discard", transient, discard_rule{true}}}});
  rows.add({"discard_alone",
            "discard dead activations and gradients, with no prefetch before the next write",
            {{"discard", transient, discard_rule{false}}}});
  rows.add({"discard_prefetch",
            "prefetch operands `ahead` operators before their use, discard them when dead",
            {{"prefetch", everything, prefetch_ops_ahead(operand_side::both, 2)},
             {"discard", transient, discard_rule{true}}}},
           true);
  rows.add({"oc_dnn",
            "prefetch what a layer writes, then what it has read prefers the host (Awan et al., HiPC 2018)",
            {{"destination", everything, prefetch_ops_ahead(operand_side::outputs, 0)},
             {"source", {{activation}, tensor_use::needed_again}, advice_rule{advice::preferred_host}}}});
}

void append_planned_rows(strategy_table& rows) {
  rows.add(
      {"deepum",
       "prefetch what faulted in a recorded iteration, evict early what is not needed soon, discard (after "
       "Jung et al., ASPLOS 2023)",
       {{"replay", everything,
         prefetch_rule{operand_side::both, look_ahead_unit::operators, 32, fetch_source::recorded}},
        {"evict_early", everything,
         evict_rule{evict_when::pressure, evict_order::not_soon, 32, evict_means::prefetch_to_host}},
        {"discard", transient, discard_rule{true}},
        {"cut", everything, cut_rule{}}}});
  for (const evict_means by : {evict_means::prefetch_to_host, evict_means::twin}) {
    const bool twin = by == evict_means::twin;
    rows.add({twin ? "twin" : "planned",
              twin ? "as planned, but evicted by a copy to a pinned twin and a discard"
                   : "every fetch, eviction and discard placed by a search over the simulator",
              {{"passing", {transient.roles, tensor_use::passing}, residence_rule{residence::device}},
               {"fetch", everything, prefetch_rule{operand_side::both, look_ahead_unit::room, 0, {}}},
               {"evict", everything, evict_rule{evict_when::pressure, evict_order::furthest_use, 0, by}},
               {"discard", discardable, discard_rule{true}},
               {"cut", everything, cut_rule{}},
               {"search", everything, search_rule{}}}},
             true);
  }
}

}  // namespace

namespace {

const strategy_table& table_rows() {
  static const strategy_table rows = [] {
    strategy_table all;
    append_driver_call_rows(all);
    append_eviction_rows(all);
    append_planned_rows(all);
    append_advice_rows(all);
    return all;
  }();
  return rows;
}

memory_technique technique_of(const hint_strategy& s) {
  const auto any = [&](auto wanted) { return std::ranges::any_of(s.rules, wanted); };
  const auto advises = [&](advice hint) {
    return any([&](const hint_rule& r) {
      const auto* rule = std::get_if<advice_rule>(&r.policy);
      return rule != nullptr && rule->hint == hint;
    });
  };
  if (s.rules.empty()) return memory_technique::managed;
  if (any([](const hint_rule& r) { return std::holds_alternative<search_rule>(r.policy); })) {
    return memory_technique::managed_plan;
  }
  const bool stays = advises(advice::preferred_host) && advises(advice::accessed_by_device);
  return stays ? memory_technique::host_access : memory_technique::managed_hints;
}

}  // namespace

std::span<const hint_strategy> hint_table() {
  return table_rows().strategies;
}

std::span<const strategy> hint_strategies() {
  static const std::vector<strategy> rows = [] {
    std::vector<strategy> all;
    for (const hint_strategy& s : hint_table()) all.push_back(make_strategy(s));
    for (const std::size_t i : table_rows().advised_indices) all[i].is_advised = true;
    return all;
  }();
  return rows;
}

strategy make_strategy(hint_strategy s) {
  const bool cuts = std::ranges::any_of(
      s.rules, [](const hint_rule& r) { return std::holds_alternative<cut_rule>(r.policy); });
  strategy row{.name = s.name,
               .summary = s.summary,
               .knobs = knobs_of(s),
               .is_bit_exact = !cuts,
               .kind = family::managed,
               .technique = technique_of(s)};
  row.plan = [rules = std::move(s)](const problem& p) { return plan_hints(rules, p); };
  return row;
}

}  // namespace um
