#include "harness/study/settings.hpp"

#include <fmt/format.h>

namespace um {
namespace {

// Ignores the summary, since it does not affect runs.
hint_strategy without_summary(hint_strategy s) {
  s.summary.clear();
  return s;
}

}  // namespace

void settings_checker::remember(const record& r) {
  if (r.simulated && r.planner_machine_digest) figures_.insert_or_assign(r.backend, *r.planner_machine_digest);
  if (r.rules) rules_.insert_or_assign(r.strategy, without_summary(*r.rules));
}

std::optional<std::string> settings_checker::conflict(const record& r) const {
  const auto figures = figures_.find(r.backend);
  if (r.simulated && r.planner_machine_digest && figures != figures_.end() &&
      figures->second != *r.planner_machine_digest) {
    return fmt::format("{} was simulated there with other figures (digest {}, here {})", r.backend,
                       figures->second, *r.planner_machine_digest);
  }
  const auto rules = rules_.find(r.strategy);
  if (r.rules && rules != rules_.end() && !(rules->second == without_summary(*r.rules))) {
    return fmt::format("strategy {} has other rules there", r.strategy);
  }
  return std::nullopt;
}

}  // namespace um
