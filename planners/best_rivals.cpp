#include "planners/best_rivals.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace um {
namespace {

// Strategies that solve an integer program take longer than the search; `best` and what follows it would ask
// itself.
bool is_asked(const strategy& s) {
  const bool solves = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "nodes"; });
  const bool searches = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "copy_us"; });
  return !solves && !searches;
}

// Data that lives elsewhere than its planner thinks may take more room: it is asked for less, in permille.
constexpr std::array<byte_count, 4> asked_for{1000, 950, 880, 760};

// How it is asked: as it stands, and where it may keep results between calls but does not, also so.
std::vector<knob_values> knobs_for(const strategy& s) {
  std::vector<knob_values> all{complete(s, {})};
  const auto keep = all[0].find("keep");
  if (keep != all[0].end() && keep->second == 0) {
    all.push_back(all[0]);
    all[1]["keep"] = 1;
  }
  return all;
}

std::optional<placed_plan> plan_of_rival(const problem& p, const placer& place, const strategy& s,
                                         const knob_values& knobs) {
  problem smaller = p;
  smaller.knobs = knobs;
  for (const byte_count permille : asked_for) {
    smaller.budget = p.budget / 1000 * permille + p.budget % 1000 * permille / 1000;
    std::optional<placed_plan> now;
    try {
      now = place.finished(s.plan(smaller));
    } catch (const std::runtime_error&) {  // infeasible, or unsupported
      return std::nullopt;
    }
    if (!now) return std::nullopt;
    if (now->need <= p.budget) return now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> by,
                                      bool same_bits) {
  std::optional<placed_plan> best;
  for (const strategy& s : by) {
    if (!is_asked(s) || (same_bits && !s.same_bits)) continue;
    for (const knob_values& knobs : knobs_for(s)) {
      std::optional<placed_plan> now = plan_of_rival(p, place, s, knobs);
      if (now && (!best || now->time < best->time)) best = std::move(now);
    }
  }
  return best;
}

}  // namespace um
