#include "harness/study/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/io/text.hpp"
#include "harness/study/summary.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

constexpr double alike = 1.02;  // times that differ by a smaller factor count as equal

managed_support support_on_system(system_kind system, bool coherent) {
  if (system == system_kind::linux_native) return {true, coherent, ""};
  return {false, coherent,
          fmt::format("under {} (concurrentManagedAccess = 0) it cannot exceed the device's memory",
                      system == system_kind::wsl2 ? "WSL2" : "Windows")};
}

double slowdown_of(const memory_advice& a, const tried_strategy& t) {
  return steady_ns(t.result).value() / a.in_core_ns.value();
}

std::string factor_text(double slowdown) {
  return fmt::format("{:.{}f}x", slowdown, slowdown < 10 ? 2 : slowdown < 100 ? 1 : 0);
}

// The fastest strategy for which is_of() is true; nullptr if none works.
const tried_strategy* fastest(const memory_advice& a, auto is_of) {
  const tried_strategy* best = nullptr;
  for (const tried_strategy& t : a.tried) {
    if (is_of(t) && steady_ns(t.result) &&
        (best == nullptr || *steady_ns(t.result) < *steady_ns(best->result)))
      best = &t;
  }
  return best;
}

std::string cost_text(const memory_advice& a, const tried_strategy& t) {
  const std::string time = time_text(steady_ns(t.result).value());
  return a.in_core_ns ? fmt::format("{} an iteration (slowdown {})", time, factor_text(slowdown_of(a, t)))
                      : time;
}

std::string need_text(const tried_strategy& t) {
  const byte_count pinned = t.result.memory.pinned_arena.value_or(0),
                   managed = t.result.memory.managed_arena.value_or(0);
  std::string text(program_changes_for(t.technique));
  if (pinned > 0) text += fmt::format(", {} of pinned memory", to_text(pinned));
  if (managed > 0) text += fmt::format(", {} managed", to_text(managed));
  return text;
}

// The cost of managed memory, or why it cannot be used.
std::string managed_text(const memory_advice& a, const tried_strategy* named) {
  const auto is_managed = [](const tried_strategy& t) { return t.result.strategy_family == family::managed; };
  if (!a.support.can_oversubscribe)
    return fmt::format(" Managed memory cannot be used here: {}.", a.support.reason);
  std::string text;
  const tried_strategy* plain =
      fastest(a, [](const tried_strategy& t) { return t.technique == memory_technique::managed; });
  const tried_strategy* best = fastest(a, is_managed);
  if (plain != nullptr && plain != named)
    text += fmt::format(" Managed memory as it is: {}", cost_text(a, *plain));
  if (best != nullptr && best != named && best != plain) {
    text += fmt::format("{} managed memory at its best ({}): {}", text.empty() ? " With" : "; with",
                        best->result.strategy, cost_text(a, *best));
  }
  if (!text.empty()) text += ".";
  if (a.support.is_coherent) {
    text +=
        " The machine is coherent: the GPU uses the CPU's page tables (ATS), so that memory of malloc needs "
        "no managed"
        " allocation; it is not simulated, managed and zero_copy are nearest to it.";
  }
  return text;
}

std::string table_row(const memory_advice& a, const tried_strategy& t) {
  constexpr std::size_t indent = 39;
  const auto time = steady_ns(t.result);
  const std::string slowdown = time && a.in_core_ns ? factor_text(slowdown_of(a, t)) : "-";
  const std::string failed = outcome_text(t.result);
  const std::string last =
      time ? fmt::format("{}: {}", to_text(t.technique), need_text(t))
           : failed.substr(0, failed.find(" ("));  // the reason without the part in parentheses
  return fmt::format("{:>8}  {:>8}  {:<17}  {}\n", slowdown, time ? time_text(*time) : "-", t.result.strategy,
                     wrap_text(last, indent));
}

}  // namespace

std::string_view program_changes_for(memory_technique technique) {
  static constexpr std::array changes{"everything on the device"sv,
                                      "gradients added up over parts of the batch"sv,
                                      "activations recomputed in the backward pass"sv,
                                      "cudaMallocManaged alone"sv,
                                      "advice, prefetches or discards at operators"sv,
                                      "pinned memory that kernels reach"sv,
                                      "copies planned ahead"sv,
                                      "a plan of hints and copies"sv,
                                      "a plan that keeps, swaps, recomputes and splits the batch"sv};
  static_assert(changes.size() == enum_names<memory_technique>.size());
  return changes.at(static_cast<std::size_t>(technique));
}

std::vector<std::string_view> advised_strategies() {
  std::vector<std::pair<memory_technique, std::string_view>> found;
  for (const auto& table : {hint_strategies(), planners()}) {
    for (const strategy& s : table) {
      if (s.is_advised) found.emplace_back(technique_of(s), s.name);
    }
  }
  std::ranges::stable_sort(found, {}, &std::pair<memory_technique, std::string_view>::first);
  std::vector<std::string_view> names;
  for (const auto& [technique, name] : found) names.push_back(name);
  return names;
}

system_kind system_of_kernel(std::string_view kernel) {
  const bool of_microsoft = kernel.find("microsoft") != kernel.npos ||
                            kernel.find("Microsoft") != kernel.npos || kernel.find("WSL") != kernel.npos;
  return of_microsoft ? system_kind::wsl2 : system_kind::linux_native;
}

managed_support managed_support_of(system_kind system, const machine& simulated) {
  return support_on_system(system, simulated.uvm.access_counter_threshold > 0);
}

managed_support managed_support_of(system_kind system, const gpu_facts& gpu) {
  const auto addressing = gpu.facts.known.find("addressing");
  managed_support found =
      support_on_system(system, addressing != gpu.facts.known.end() && addressing->second == "ats");
  if (found.can_oversubscribe && !gpu.concurrent_managed_access) {
    found.can_oversubscribe = false;
    found.reason =
        fmt::format("{} has concurrentManagedAccess = 0, so it cannot exceed the device's memory", gpu.name);
  }
  return found;
}

memory_advice make_advice(std::vector<tried_strategy> tried, const record& in_core, managed_support managed) {
  memory_advice a{std::move(tried), steady_ns(in_core), true, std::move(managed)};
  if (!a.in_core_ns && in_core.compute_time) {
    a.in_core_ns = static_cast<double>(*in_core.compute_time);
    a.has_in_core_run = false;
  }
  return a;
}

const tried_strategy* recommended_strategy(const memory_advice& a) {
  const tried_strategy* named = fastest(a, [](const tried_strategy&) { return true; });
  if (named == nullptr) return nullptr;
  const double enough = *steady_ns(named->result) * alike;
  for (const tried_strategy& t : a.tried) {
    if (steady_ns(t.result) && *steady_ns(t.result) <= enough && t.technique < named->technique) named = &t;
  }
  return named;
}

std::string advice_text(const memory_advice& a, const std::string& setting) {
  const tried_strategy* named = recommended_strategy(a);
  std::string text = setting + " ";
  if (named == nullptr) {
    text += "Nothing that was tried works within that budget.";
  } else {
    text += fmt::format("Take {} ({}): {}, {}. It asks for this: {}. ", named->result.strategy,
                        to_text(named->technique), cost_text(a, *named), provenance(named->result),
                        need_text(*named));
    text += named->result.same_bits ? "The result is the same to the bit."
                                    : "The result is the same up to rounding.";
  }
  text = wrap_text(text + managed_text(a, named), 0) + "\n\n";
  text += fmt::format("{:>8}  {:>8}  {:<17}  {}\n", "slowdown", "time", "strategy", "way: what it asks for");
  std::vector<const tried_strategy*> order;
  for (const tried_strategy& t : a.tried) order.push_back(&t);
  const auto cost = [](const tried_strategy* t) {
    return steady_ns(t->result).value_or(std::numeric_limits<double>::infinity());
  };
  std::ranges::stable_sort(order, {}, cost);
  for (const tried_strategy* t : order) text += table_row(a, *t);
  if (a.in_core_ns) {
    text += fmt::format("slowdown: over {} with everything resident{}\n", time_text(*a.in_core_ns),
                        a.has_in_core_run ? "" : ", the sum of its operators' times, as it has no room here");
  }
  return text;
}

}  // namespace um
