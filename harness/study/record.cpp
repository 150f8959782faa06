#include "harness/study/record.hpp"

#include <fmt/format.h>

#include <algorithm>

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

// A quantile of sorted times.
double quantile(const std::vector<nanoseconds>& times, double share) {
  const double place = share * static_cast<double>(times.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, times.size() - 1);
  const double part = place - static_cast<double>(below);
  return static_cast<double>(times[below]) * (1 - part) + static_cast<double>(times[above]) * part;
}

}  // namespace

std::optional<quartiles> steady_quartiles(const record& r) {
  const std::vector<nanoseconds> times = steady_samples(r);
  if (times.size() < 2) return std::nullopt;
  return quartiles{quantile(times, 0.25), quantile(times, 0.75)};
}

std::optional<double> steady_ns(const record& r) {
  const std::vector<nanoseconds> times = steady_samples(r);
  if (times.empty()) return std::nullopt;
  const std::size_t half = times.size() / 2;
  const auto upper = static_cast<double>(times[half]);
  return times.size() % 2 == 1 ? upper : (static_cast<double>(times[half - 1]) + upper) / 2;
}

std::string group_of(const record& r) {
  std::string knobs;
  for (const auto& [name, value] : r.network.knobs) knobs += fmt::format(",{}={}", name, value);
  return fmt::format("{}{}/b{}/{}{}/{}/{}/{}/{}/{}", r.network.name, knobs, r.network.batch,
                     to_text(r.network.mode), optimizer_text(r.network), to_text(r.network.fusion_mode),
                     storage_text(r.network), r.workspace_cap.value_or(0), r.backend, r.device.value_or("?"));
}

}  // namespace um
