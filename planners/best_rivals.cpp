#include "planners/best_rivals.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "planners/best_search.hpp"
#include "planners/within.hpp"
#include "schedule/bounds/pass_bound.hpp"

namespace um {
namespace {

using std::string_view_literals::operator""sv;

// Whether the strategy can be a rival. `device` is none, since everything would have to fit; nor are
// strategies that solve an integer program, which take longer than the search, nor `best` itself.
bool can_be_rival(const strategy& s) {
  if (s.technique == memory_technique::in_core) return false;
  const bool solves = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "nodes"; });
  const bool searches = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "copy_us"; });
  return !solves && !searches;
}

// Budgets that rivals plan for, in permille of the budget: their plans may need more memory once they are
// placed. `smaller_budget_permille`: those of plan_for_smaller_budgets().
constexpr std::array<byte_count, 4> budget_permille{1000, 950, 880, 760};
constexpr std::array<byte_count, 8> smaller_budget_permille{950, 900, 850, 800, 750, 700, 600, 500};

// The default knobs, and the same with `keep` = 1 if the strategy has that knob and its default is 0.
std::vector<knob_values> knobs_for(const strategy& s) {
  std::vector<knob_values> all{complete_knobs(s, {})};
  const auto keep = all[0].find("keep");
  if (keep != all[0].end() && keep->second == 0) {
    all.push_back(all[0]);
    all[1]["keep"] = 1;
  }
  return all;
}

// Whether the strategy only swaps: it recomputes nothing, does not split the batch, and operators read
// nothing over the link.
bool only_swaps(const strategy& s) {
  constexpr std::array recomputing{"pooch"sv, "superneurons"sv, "capuchin"sv};
  constexpr std::array managed{"deepum"sv, "planned"sv, "twin"sv};
  if (s.kind == family::managed) return std::ranges::find(managed, s.name) != managed.end();
  return s.kind == family::explicit_ && std::ranges::find(recomputing, s.name) == recomputing.end();
}

// Whether the strategy only swaps and finishes each operator before it begins the next one.
bool swaps_whole_operators(const strategy& s) {
  return only_swaps(s) && s.name != "ooc_cudnn";
}

std::vector<rival> requests_for(std::span<const strategy> rivals, bool same_bits) {
  std::vector<rival> all;
  for (const strategy& s : rivals) {
    if (!can_be_rival(s) || (same_bits && !s.is_bit_exact)) continue;
    for (knob_values& knobs : knobs_for(s)) all.push_back({&s, std::move(knobs)});
  }
  return all;
}

// Lower bounds on the times of strategies that only swap. With a smaller budget a bound is no lower.
class rival_bounds {
 public:
  explicit rival_bounds(const problem& p) : p_(p), passes_(split_passes(p)) {}

  bool allow(const strategy& s, byte_count budget, nanoseconds time_to_beat) {
    if (!only_swaps(s)) return true;
    // A managed plan takes the memory that there is, whatever it was made for.
    const bool is_managed = s.kind == family::managed;
    if (is_managed) budget = p_.budget;
    const auto [at, is_new] = bounds_.try_emplace({budget, is_managed});
    if (is_new) at->second = bounds_for(budget, is_managed);
    return at->second.of_passes < time_to_beat &&
           (!swaps_whole_operators(s) || at->second.of_whole_operators < time_to_beat);
  }

 private:
  struct lower_bounds {
    nanoseconds of_passes = 0, of_whole_operators = 0;
  };

  // In the simulator faults bring data in beside copies, so what moves between iterations is no bound for
  // managed plans.
  lower_bounds bounds_for(byte_count budget, bool is_managed) const {
    passes x = passes_;
    if (is_managed) x.forward_start_bytes = x.gradient_bytes = 0;
    problem smaller = p_;
    smaller.budget = budget;
    const allowed_moves swaps{has_link(p_.target), false};
    return {x.backward_time > 0 ? bound_passes(x, p_.target, budget, swaps).min_time : 0,
            swap_time_lower_bound(smaller)};
  }

  const problem& p_;
  passes passes_;
  std::map<std::pair<byte_count, bool>, lower_bounds> bounds_;  // per budget, and whether managed
};

byte_count permille_of(byte_count budget, byte_count permille) {
  return budget / 1000 * permille + budget % 1000 * permille / 1000;
}

// The rival's plan. If parts are measured and there is a time to beat, it is made by estimates: a part takes
// its share of the operator's time. Then only parts of plans that may be fast enough are timed. On a GPU a
// part takes a search for its engine, 0.1 s, and planning VGG-16 in bf16 timed 660 parts of rivals' tries.
// Throws infeasible, also if estimates exceed problem::time_to_beat by a fiftieth.
memory_plan plan_by_estimates(const problem& p, const rival& q) {
  if (!p.measures_slices || p.time_to_beat == any_time) return q.by->plan(p);
  problem estimated = with_estimates(p);
  estimated.time_to_beat += p.time_to_beat / 50;
  memory_plan plan = q.by->plan(estimated);
  if (time_lower_bound(estimated, plan) >= estimated.time_to_beat) throw too_slow(q.by->name);
  return plan;
}

// The rival's plan for that budget, placed in the problem's; nothing if it has none that is faster than
// `time_to_beat`, or only `known` again.
std::optional<placed_plan> plan_for_budget(const problem& p, const placer& place, const rival& q,
                                           byte_count budget, nanoseconds time_to_beat,
                                           std::optional<memory_plan>* known = nullptr) {
  problem smaller = p;
  smaller.knobs = q.knobs;
  smaller.budget = budget;
  smaller.time_to_beat = time_to_beat;
  try {
    memory_plan plan = plan_by_estimates(smaller, q);
    if (time_lower_bound(p, plan) >= time_to_beat) return std::nullopt;
    if (known != nullptr) {
      if (plan == *known) return std::nullopt;
      *known = plan;
    }
    return place.place_finished(std::move(plan), p.budget);
  } catch (const std::runtime_error&) {  // infeasible, or unsupported
    return std::nullopt;
  }
}

std::optional<placed_plan> plan_of_rival(const problem& p, const placer& place, const rival& q,
                                         nanoseconds time_to_beat) {
  for (const byte_count permille : budget_permille) {
    std::optional<placed_plan> now =
        plan_for_budget(p, place, q, permille_of(p.budget, permille), time_to_beat);
    if (!now || now->device_bytes <= p.budget) return now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<rival_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                     bool same_bits, nanoseconds time_to_beat) {
  rival_bounds bounds(p);
  std::optional<rival_plan> best;
  for (const rival& q : requests_for(rivals, same_bits)) {
    if (!bounds.allow(*q.by, p.budget, time_to_beat)) continue;
    std::optional<placed_plan> now = plan_of_rival(p, place, q, time_to_beat);
    if (!now || now->device_bytes > p.budget || now->time >= time_to_beat) continue;
    time_to_beat = now->time;
    best = {std::move(*now), q};
  }
  return best;
}

std::optional<placed_plan> plan_for_smaller_budgets(const problem& p, const placer& place, const rival& q,
                                                    nanoseconds time_to_beat) {
  std::optional<placed_plan> best;
  for (const byte_count permille : smaller_budget_permille) {
    std::optional<placed_plan> now =
        plan_for_budget(p, place, q, permille_of(p.budget, permille), time_to_beat);
    if (!now || now->device_bytes > p.budget || now->time >= time_to_beat) break;
    time_to_beat = now->time;
    best = std::move(now);
  }
  return best;
}

std::optional<placed_plan> best_rival_of_budgets(const problem& p, const placer& place,
                                                 std::span<const strategy> rivals, bool same_bits,
                                                 std::span<const byte_count> budgets,
                                                 nanoseconds time_to_beat) {
  rival_bounds bounds(p);
  std::optional<placed_plan> best;
  for (const rival& q : requests_for(rivals, same_bits)) {
    std::optional<memory_plan> known;  // of the budget before
    for (const byte_count budget : budgets) {
      if (!bounds.allow(*q.by, budget, time_to_beat)) break;
      std::optional<placed_plan> now = plan_for_budget(p, place, q, budget, time_to_beat, &known);
      if (!now || now->device_bytes > p.budget || now->time >= time_to_beat) continue;
      time_to_beat = now->time;
      best = std::move(now);
    }
  }
  return best;
}

}  // namespace um
