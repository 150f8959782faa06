#include "harness/study/record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/quantiles.hpp"

namespace um {
namespace {

// A key that is equal for cells with the same computation on the same machine and independent of the
// strategy.
std::string key_without_strategy(const record& r) {
  std::string knobs;
  for (const auto& [name, value] : r.network.knobs) knobs += fmt::format(",{}={}", name, value);
  return fmt::format("{}{}/b{}/{}{}/{}/{}/{}/{}/{}", r.network.name, knobs, r.network.batch,
                     to_text(r.network.mode), optimizer_text(r.network), to_text(r.network.fusion_mode),
                     storage_text(r.network), r.workspace_cap.value_or(0), r.backend, r.device.value_or("?"));
}

}  // namespace

record make_record(const cell& work) {
  const experiment& e = work.settings;
  record r;
  r.key = work.key;
  r.network = e.network;
  r.strategy = e.strategy;
  r.strategy_knobs = e.strategy_knobs;
  if (work.strategy) r.rules = work.strategy->rules;
  r.strategy_family = family_of(work);
  r.same_bits = has_baseline_bits(work);
  r.ratio = e.ratio;
  r.mode = e.mode.value();
  r.backend = e.backend;
  r.workspace_cap = e.workspace_cap;
  r.iterations = e.iterations;
  r.simulated = work.backend.is_simulated;
  r.memory.budget = e.budget;
  r.gpu_and_host.missing_reason = r.simulated ? "simulated" : "no iteration ended";
  return r;
}

std::optional<quartiles> steady_quartiles(const record& r) {
  if (r.result != outcome::ok || r.samples.size() < 3) return std::nullopt;
  std::vector<nanoseconds> times(r.samples.begin() + 1, r.samples.end());
  std::ranges::sort(times);
  return quartiles{quantile_of(times, 0.25), quantile_of(times, 0.75)};
}

std::optional<double> steady_ns(const record& r) {
  if (r.result != outcome::ok || r.samples.empty()) return std::nullopt;
  return steady_time(r.samples);
}

void digest_checker::check(record& r) {
  if (r.result != outcome::ok || !r.digest) return;
  if (r.strategy != baseline_strategy && !r.same_bits) return;
  // With SGD the result depends on how many iterations ran.
  const std::string group = fmt::format("{}/i{}", key_without_strategy(r), r.iterations);
  if (r.strategy == baseline_strategy) by_group_.emplace(group, *r.digest);
  const auto expected = by_group_.find(group);
  if (expected == by_group_.end() || expected->second == *r.digest) return;
  r.result = outcome::wrong_result;
  r.reason = fmt::format("loss and gradients have digest {:016x}, those of device {:016x}", *r.digest,
                         expected->second);
}

namespace {

// Returns the strategy without its summary, which does not affect runs.
hint_strategy without_summary(hint_strategy s) {
  s.summary.clear();
  return s;
}

}  // namespace

void figures_and_rules_checker::remember(const record& r) {
  if (r.simulated && r.planner_machine_digest)
    figures_.insert_or_assign(r.backend, *r.planner_machine_digest);
  if (r.rules) rules_.insert_or_assign(r.strategy, without_summary(*r.rules));
}

std::optional<std::string> figures_and_rules_checker::conflict(const record& r) const {
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
