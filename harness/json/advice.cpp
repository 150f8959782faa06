#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

json write_row(const memory_advice& a, const tried_strategy& t) {
  const std::optional<double> time = steady_ns(t.result);
  const bool known = time && a.in_core_ns;
  return {{"way", to_text(t.technique)},
          {"asks", program_changes_for(t.technique)},
          {"strategy", t.result.strategy},
          {"strategy_knobs", t.result.strategy_knobs},
          {"key", t.result.key},
          {"outcome", to_text(t.result.result)},
          {"reason", nullable(t.result.reason)},
          {"median_ns", nullable(time)},
          {"slowdown", known ? json(*time / *a.in_core_ns) : json(nullptr)},
          {"bits", t.result.same_bits ? "same" : "rounding"},
          {"device_arena_bytes", nullable(t.result.memory.device_arena)},
          {"managed_arena_bytes", nullable(t.result.memory.managed_arena)},
          {"pinned_arena_bytes", nullable(t.result.memory.pinned_arena)}};
}

json write_row(const strategy& s) {
  json knobs = json::array();
  for (const knob& k : s.knobs) {
    knobs.push_back({{"name", k.name},
                     {"summary", k.summary},
                     {"standard", k.default_value},
                     {"least", k.min_value},
                     {"most", k.max_value}});
  }
  return {{"name", s.name},
          {"summary", s.summary},
          {"family", to_text(s.kind)},
          {"bits", s.is_bit_exact ? "same" : "rounding"},
          {"keeps_budget", s.keeps_budget},
          {"placed_by", to_text(s.packing_algorithm)},
          {"source", s.source.empty() ? json(nullptr) : json(s.source)},
          {"knobs", std::move(knobs)}};
}

}  // namespace

std::string to_json(const memory_advice& a) {
  const record& any = a.tried.front().result;
  const tried_strategy* named = recommended_strategy(a);
  json ways = json::array();
  for (const tried_strategy& t : a.tried) ways.push_back(write_row(a, t));
  const auto footprint = any.memory.footprint;
  return dump_indented(
      {{"schema", 1},
       {"kind", "advice"},
       {"backend", any.backend},
       {"device", nullable(any.device)},
       {"simulated", any.simulated},
       {"mode", to_text(any.mode)},
       {"footprint_bytes", footprint ? json(footprint->total) : json(nullptr)},
       {"budget_bytes", nullable(any.memory.budget)},
       {"ratio", nullable(any.ratio)},
       {"in_core_ns", nullable(a.in_core_ns)},
       {"in_core", a.has_in_core_run ? "ran" : "sum of operators"},
       {"oversubscribes", a.support.can_oversubscribe},
       {"oversubscribes_not_because", a.support.can_oversubscribe ? json(nullptr) : json(a.support.reason)},
       {"coherent", a.support.is_coherent},
       {"named", named != nullptr ? json(named->result.strategy) : json(nullptr)},
       {"ways", std::move(ways)}});
}

std::string to_json(std::span<const strategy> rows) {
  json all = json::array();
  for (const strategy& s : rows) all.push_back(write_row(s));
  return dump_indented({{"schema", 1}, {"kind", "strategies"}, {"strategies", std::move(all)}});
}

}  // namespace um
