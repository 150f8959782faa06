#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

json json_of(const advice_given& a, const tried_way& t) {
  const std::optional<double> time = steady_ns(t.r);
  const bool known = time && a.in_core_ns;
  return {{"way", to_text(t.technique)},
          {"asks", program_changes_for(t.technique)},
          {"strategy", t.r.strategy},
          {"strategy_knobs", t.r.strategy_knobs},
          {"key", t.r.key},
          {"outcome", to_text(t.r.result)},
          {"reason", or_null(t.r.reason)},
          {"median_ns", or_null(time)},
          {"slowdown", known ? json(*time / *a.in_core_ns) : json(nullptr)},
          {"bits", t.r.same_bits ? "same" : "rounding"},
          {"device_arena_bytes", or_null(t.r.memory.device_arena)},
          {"managed_arena_bytes", or_null(t.r.memory.managed_arena)},
          {"pinned_arena_bytes", or_null(t.r.memory.pinned_arena)}};
}

}  // namespace

std::string to_json(const advice_given& a) {
  const record& any = a.tried.front().r;
  const tried_way* named = recommended_by(a);
  json ways = json::array();
  for (const tried_way& t : a.tried) ways.push_back(json_of(a, t));
  const auto footprint = any.memory.footprint;
  return dump_indented(
      {{"schema", 1},
       {"kind", "advice"},
       {"backend", any.backend},
       {"device", or_null(any.device)},
       {"simulated", any.simulated},
       {"mode", to_text(any.mode)},
       {"footprint_bytes", footprint ? json(footprint->total) : json(nullptr)},
       {"budget_bytes", or_null(any.memory.budget)},
       {"ratio", or_null(any.ratio)},
       {"in_core_ns", or_null(a.in_core_ns)},
       {"in_core", a.in_core_ran ? "ran" : "sum of operators"},
       {"oversubscribes", a.managed.oversubscribes},
       {"oversubscribes_not_because", a.managed.oversubscribes ? json(nullptr) : json(a.managed.why)},
       {"coherent", a.managed.coherent},
       {"named", named != nullptr ? json(named->r.strategy) : json(nullptr)},
       {"ways", std::move(ways)}});
}

}  // namespace um
