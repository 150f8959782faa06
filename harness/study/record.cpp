#include "harness/study/record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/quantiles.hpp"

namespace um {

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
  r.observed.missing_reason = r.simulated ? "simulated" : "no iteration ended";
  return r;
}

namespace {

std::vector<nanoseconds> steady_samples(const record& r) {
  if (r.result != outcome::ok || r.samples.empty()) return {};
  std::vector<nanoseconds> times(r.samples.begin() + (r.samples.size() > 1 ? 1 : 0), r.samples.end());
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

std::optional<quartiles> steady_quartiles(const record& r) {
  const std::vector<nanoseconds> times = steady_samples(r);
  if (times.size() < 2) return std::nullopt;
  return quartiles{quantile_of(times, 0.25), quantile_of(times, 0.75)};
}

std::optional<double> steady_ns(const record& r) {
  const std::vector<nanoseconds> times = steady_samples(r);
  if (times.empty()) return std::nullopt;
  return quantile_of(times, 0.5);
}

}  // namespace um
