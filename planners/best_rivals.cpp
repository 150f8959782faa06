#include "planners/best_rivals.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "planners/within.hpp"
#include "schedule/bounds/pass_bound.hpp"

namespace um {
namespace {

using std::string_view_literals::operator""sv;

// Whether the strategy can be a rival. `device` is none, since everything would have to fit; nor are
// strategies that solve an integer program, which take longer than the search, nor `best` itself.
bool is_eligible(const strategy& s) {
  if (s.technique == memory_technique::in_core) return false;
  const bool solves = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "nodes"; });
  const bool searches = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "copy_us"; });
  return !solves && !searches;
}

// Budgets that rivals plan for, in permille of the budget: their plans may need more memory once they are
// placed. `winner_budget_permille`: budgets tried at the end for the fastest rival.
constexpr std::array<byte_count, 4> budget_permille{1000, 950, 880, 760};
constexpr std::array<byte_count, 8> winner_budget_permille{950, 900, 850, 800, 750, 700, 600, 500};

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

struct rival_request {
  const strategy* by = nullptr;
  knob_values knobs;
};

byte_count permille_of(byte_count budget, byte_count permille) {
  return budget / 1000 * permille + budget % 1000 * permille / 1000;
}

// The rival's plan for that budget; nothing if it has none that is faster than `time_to_beat`.
std::optional<placed_plan> plan_for_budget(const problem& p, const placer& place, const rival_request& q,
                                           byte_count budget, nanoseconds time_to_beat) {
  problem smaller = p;
  smaller.knobs = q.knobs;
  smaller.budget = budget;
  smaller.time_to_beat = time_to_beat;
  try {
    memory_plan plan = q.by->plan(smaller);
    if (time_lower_bound(p, plan) >= time_to_beat) return std::nullopt;
    return place.place_finished(std::move(plan), p.budget);
  } catch (const std::runtime_error&) {  // infeasible, or unsupported
    return std::nullopt;
  }
}

std::optional<placed_plan> plan_of_rival(const problem& p, const placer& place, const rival_request& q,
                                         nanoseconds time_to_beat) {
  for (const byte_count permille : budget_permille) {
    std::optional<placed_plan> now =
        plan_for_budget(p, place, q, permille_of(p.budget, permille), time_to_beat);
    if (!now || now->device_bytes <= p.budget) return now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                      bool same_bits, nanoseconds time_to_beat) {
  const allowed_moves swaps{p.target.link_to_device_bytes_per_s > 0 && p.target.link_to_host_bytes_per_s > 0,
                            false};
  const passes x = split_passes(p);
  const bool swaps_win =
      x.backward_time == 0 || bound_passes(x, p.target, p.budget, swaps).min_time < time_to_beat;
  const nanoseconds swapping = swap_time_lower_bound(p);
  std::optional<placed_plan> best;
  std::optional<rival_request> won;
  const auto take = [&](std::optional<placed_plan> now, const rival_request& q) {
    if (!now || now->device_bytes > p.budget || now->time >= time_to_beat) return;
    time_to_beat = now->time;
    best = std::move(now);
    won = q;
  };
  for (const strategy& s : rivals) {
    if (!is_eligible(s) || (same_bits && !s.is_bit_exact) || (only_swaps(s) && !swaps_win) ||
        (swaps_whole_operators(s) && swapping >= time_to_beat))
      continue;
    for (knob_values& knobs : knobs_for(s)) {
      const rival_request q{&s, std::move(knobs)};
      take(plan_of_rival(p, place, q, time_to_beat), q);
    }
  }
  // The fastest rival may be faster with a smaller budget: most planners are not monotonic.
  if (won) {
    constexpr int max_failures = 2;  // the loop ends after this many budgets in a row without a faster plan
    const rival_request winner = *won;
    int slower = 0;
    for (const byte_count permille : winner_budget_permille) {
      const nanoseconds before = time_to_beat;
      take(plan_for_budget(p, place, winner, permille_of(p.budget, permille), time_to_beat), winner);
      slower = time_to_beat < before ? 0 : slower + 1;
      if (slower == max_failures) break;
    }
  }
  return best;
}

}  // namespace um
