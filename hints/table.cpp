// The named strategies: what each of them is, as rules.
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
const tensor_choice mortal{{activation, activation_gradient, parameter_gradient}, tensor_use::any};

prefetch_rule called(operand_side of, std::int64_t ahead) {
  return {of, look_ahead::operators, ahead, fetch_source::network};
}

// Each advice alone for the tensors of each role that a hint can be for.
void append_advice_rows(std::vector<hint_strategy>& rows) {
  struct kind {
    std::string_view name;
    role use;
  };
  constexpr std::array<kind, 5> kinds{{{"weights", parameter},
                                       {"weight_gradients", parameter_gradient},
                                       {"activations", activation},
                                       {"activation_gradients", activation_gradient},
                                       {"inputs", input}}};
  for (const advice hint :
       {advice::read_mostly, advice::preferred_device, advice::preferred_host, advice::accessed_by_device}) {
    for (const kind& k : kinds) {
      const std::string name = std::string(to_text(hint)) + "_" + std::string(k.name);
      rows.push_back({name,
                      "advice " + std::string(to_text(hint)) + " for " + std::string(k.name) + " alone",
                      {{"advice", {{k.use}, tensor_use::any}, advice_rule{hint}}}});
    }
  }
}

void append_rows_of_calls(std::vector<hint_strategy>& rows) {
  rows.push_back({"managed", "cudaMallocManaged without any hint", {}});
  rows.push_back({"managed_advise",
                  "parameters and gradients prefer the device, inputs are read-mostly",
                  {{"weights", {{parameter, parameter_gradient}, {}}, advice_rule{advice::preferred_device}},
                   {"inputs", {{input}, {}}, advice_rule{advice::read_mostly}}}});
  rows.push_back({"managed_prefetch",
                  "prefetch what an operator reads and writes `ahead` operators before it",
                  {{"prefetch", everything, called(operand_side::both, 2)}}});
  rows.push_back({"prefetch_inputs",
                  "prefetch what an operator reads `ahead` operators before it",
                  {{"prefetch", everything, called(operand_side::inputs, 2)}}});
  rows.push_back({"prefetch_outputs",
                  "prefetch what an operator writes `ahead` operators before it",
                  {{"prefetch", everything, called(operand_side::outputs, 2)}}});
  rows.push_back({"zero_copy",
                  "activations and their gradients stay on the host, kernels reach them over the link",
                  {{"home", transient, advice_rule{advice::preferred_host}},
                   {"access", transient, advice_rule{advice::accessed_by_device}}}});
}

const evict_rule behind{evict_when::after_use, evict_order::driver, 4, evict_means::prefetch_to_host};

void append_rows_that_move(std::vector<hint_strategy>& rows) {
  const tensor_choice kept{{activation, input}, tensor_use::needed_again};
  rows.push_back({"evict_behind",
                  "prefetch to the host what is not used again for `gap` operators, right after its use",
                  {{"prefetch", everything, called(operand_side::inputs, 2)},
                   {"evict", kept, behind},
                   {"cut", everything, cut_rule{}}}});
  rows.push_back({"discard",
                  "discard dead activations and gradients (Zhu et al., IISWC 2022), populate before a write",
                  {{"discard", transient, discard_rule{true}}}});
  rows.push_back({"discard_alone",
                  "discard dead activations and gradients, with no prefetch before the next write",
                  {{"discard", transient, discard_rule{false}}}});
  rows.push_back({"discard_prefetch",
                  "prefetch operands `ahead` operators before their use, discard them when dead",
                  {{"prefetch", everything, called(operand_side::both, 2)},
                   {"discard", transient, discard_rule{true}}}});
  rows.push_back(
      {"oc_dnn",
       "prefetch what a layer writes, then what it has read prefers the host (Awan et al., HiPC 2018)",
       {{"destination", everything, called(operand_side::outputs, 0)},
        {"source", {{activation}, tensor_use::needed_again}, advice_rule{advice::preferred_host}}}});
}

void append_rows_that_plan(std::vector<hint_strategy>& rows) {
  rows.push_back(
      {"deepum",
       "prefetch what faulted in a recorded iteration, evict early what is not needed soon, discard (after "
       "Jung et al., ASPLOS 2023)",
       {{"replay", everything,
         prefetch_rule{operand_side::both, look_ahead::operators, 32, fetch_source::recorded}},
        {"evict_early", everything,
         evict_rule{evict_when::pressure, evict_order::not_soon, 32, evict_means::prefetch_to_host}},
        {"discard", transient, discard_rule{true}},
        {"cut", everything, cut_rule{}}}});
  for (const evict_means by : {evict_means::prefetch_to_host, evict_means::twin}) {
    const bool twin = by == evict_means::twin;
    rows.push_back(
        {twin ? "twin" : "planned",
         twin ? "as planned, but evicted by a copy to a pinned twin and a discard"
              : "every fetch, eviction and discard placed by a search over the simulator",
         {{"passing", {transient.roles, tensor_use::passing}, residence_rule{residence::device}},
          {"fetch", everything, prefetch_rule{operand_side::both, look_ahead::room, 0, {}}},
          {"evict", everything, evict_rule{evict_when::pressure, evict_order::furthest_use, 0, by}},
          {"discard", mortal, discard_rule{true}},
          {"cut", everything, cut_rule{}},
          {"search", everything, search_rule{}}}});
  }
}

}  // namespace

std::span<const hint_strategy> hint_table() {
  static const std::vector<hint_strategy> rows = [] {
    std::vector<hint_strategy> all;
    append_rows_of_calls(all);
    append_rows_that_move(all);
    append_rows_that_plan(all);
    append_advice_rows(all);
    return all;
  }();
  return rows;
}

std::span<const strategy> hints() {
  static const std::vector<strategy> rows = [] {
    std::vector<strategy> all;
    for (const hint_strategy& s : hint_table()) all.push_back(strategy_of(s));
    return all;
  }();
  return rows;
}

strategy strategy_of(hint_strategy s) {
  const bool cuts = std::ranges::any_of(
      s.rules, [](const hint_rule& r) { return std::holds_alternative<cut_rule>(r.what); });
  strategy row{.name = s.name,
               .summary = s.summary,
               .knobs = knobs_of(s),
               .same_bits = !cuts,
               .kind = family::managed};
  row.plan = [rules = std::move(s)](const problem& p) { return plan_hints(rules, p); };
  return row;
}

}  // namespace um
