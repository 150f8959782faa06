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

// Not asked: `device`, which does not fit, strategies that solve an integer program, which take longer than
// the search, and `best` itself.
bool is_asked(const strategy& s) {
  if (s.technique == memory_technique::in_core) return false;
  const bool solves = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "nodes"; });
  const bool searches = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "copy_us"; });
  return !solves && !searches;
}

// Budgets to ask a rival for, in permille: its plan may need more once it is placed. `asked_too`: those to
// ask the fastest rival for at the end.
constexpr std::array<byte_count, 4> asked_for{1000, 950, 880, 760};
constexpr std::array<byte_count, 8> asked_too{950, 900, 850, 800, 750, 700, 600, 500};

// The default knobs, and those with `keep` where the default is not to keep results between calls.
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

// The same, and it ends an operator before it begins the next one.
bool swaps_whole_operators(const strategy& s) {
  return only_swaps(s) && s.name != "ooc_cudnn";
}

struct question {
  const strategy* by = nullptr;
  knob_values knobs;
};

byte_count share_of(byte_count budget, byte_count permille) {
  return budget / 1000 * permille + budget % 1000 * permille / 1000;
}

// The rival's plan for that budget; nothing if it has none faster than `to_beat`.
std::optional<placed_plan> plan_of_knobs(const problem& p, const placer& place, const question& q,
                                         byte_count budget, nanoseconds to_beat) {
  problem smaller = p;
  smaller.knobs = q.knobs;
  smaller.budget = budget;
  smaller.time_to_beat = to_beat;
  try {
    memory_plan plan = q.by->plan(smaller);
    if (least_time_of(p, plan) >= to_beat) return std::nullopt;
    return place.finished(std::move(plan), p.budget);
  } catch (const std::runtime_error&) {  // infeasible, or unsupported
    return std::nullopt;
  }
}

std::optional<placed_plan> plan_of_rival(const problem& p, const placer& place, const question& q,
                                         nanoseconds to_beat) {
  for (const byte_count permille : asked_for) {
    std::optional<placed_plan> now = plan_of_knobs(p, place, q, share_of(p.budget, permille), to_beat);
    if (!now || now->need <= p.budget) return now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                      bool same_bits, nanoseconds to_beat) {
  const allowed_moves swaps{p.target.link_to_device_bytes_per_s > 0 && p.target.link_to_host_bytes_per_s > 0,
                            false};
  const passes x = split_passes(p);
  const bool swaps_win =
      x.backward_time == 0 || bound_passes(x, p.target, p.budget, swaps).min_time < to_beat;
  const nanoseconds swapping = least_time_of_swaps(p);
  std::optional<placed_plan> best;
  std::optional<question> won;
  const auto take = [&](std::optional<placed_plan> now, const question& q) {
    if (!now || now->need > p.budget || now->time >= to_beat) return;
    to_beat = now->time;
    best = std::move(now);
    won = q;
  };
  for (const strategy& s : rivals) {
    if (!is_asked(s) || (same_bits && !s.is_bit_exact) || (only_swaps(s) && !swaps_win) ||
        (swaps_whole_operators(s) && swapping >= to_beat))
      continue;
    for (knob_values& knobs : knobs_for(s)) {
      const question q{&s, std::move(knobs)};
      take(plan_of_rival(p, place, q, to_beat), q);
    }
  }
  // The fastest rival may be faster still with less memory: most planners are not monotonic.
  if (won) {
    constexpr int most_slower = 2;  // the loop ends after two budgets in a row that gave no faster plan
    const question winner = *won;
    int slower = 0;
    for (const byte_count permille : asked_too) {
      const nanoseconds before = to_beat;
      take(plan_of_knobs(p, place, winner, share_of(p.budget, permille), to_beat), winner);
      slower = to_beat < before ? 0 : slower + 1;
      if (slower == most_slower) break;
    }
  }
  return best;
}

}  // namespace um
