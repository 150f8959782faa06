#include "planners/best_rivals.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "core/compute.hpp"
#include "schedule/bounds/pass_bound.hpp"

namespace um {
namespace {

using namespace std::string_view_literals;

// Strategies that solve an integer program take longer than the search; `best` and what follows it would ask
// itself.
bool is_asked(const strategy& s) {
  const bool solves = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "nodes"; });
  const bool searches = std::ranges::any_of(s.knobs, [](const knob& k) { return k.name == "copy_us"; });
  return !solves && !searches;
}

// Data that lives elsewhere than its planner thinks may take more room: it is asked for less, in permille.
constexpr std::array<byte_count, 4> asked_for{1000, 950, 880, 760};
constexpr std::array<byte_count, 8> asked_too{950, 900, 850, 800, 750, 700, 600, 500};

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

// Whether it computes nothing twice and ends the forward pass of the whole batch before the backward pass.
bool only_swaps(const strategy& s) {
  constexpr std::array recomputing{"pooch"sv, "superneurons"sv, "capuchin"sv};
  return s.kind == family::explicit_ && std::ranges::find(recomputing, s.name) == recomputing.end();
}

// What no placing makes faster: the computes, and what is fetched. Packing takes long, and most rivals are
// far from the best.
nanoseconds least_time_of(const problem& p, const memory_plan& plan) {
  nanoseconds computing = 0;
  byte_count fetched = 0;
  for (const action& a : plan.actions) {
    if (const auto* c = std::get_if<compute>(&a)) computing += cost_of(p, *c).time;
    const auto* f = std::get_if<prefetch>(&a);
    if (f == nullptr || plan.home[f->what] != residence::staged) continue;
    const tensor& t = p.network.tensors[f->what];
    fetched += bytes_of(t, region_of(t.shape, f->part));
  }
  const std::uint64_t rate = p.on.link_to_device_bytes_per_s;
  return rate == 0 || fetched == 0 ? computing : std::max(computing, time_at(fetched, rate));
}

struct question {
  const strategy* by = nullptr;
  knob_values knobs;
};

// Its plan for so much of the budget, in permille; nothing where it has none, or none faster than `to_beat`.
std::optional<placed_plan> answer(const problem& p, const placer& place, const question& q,
                                  byte_count permille, nanoseconds to_beat) {
  problem smaller = p;
  smaller.knobs = q.knobs;
  smaller.budget = p.budget / 1000 * permille + p.budget % 1000 * permille / 1000;
  try {
    memory_plan plan = q.by->plan(smaller);
    if (least_time_of(p, plan) >= to_beat) return std::nullopt;
    return place.finished(std::move(plan));
  } catch (const std::runtime_error&) {  // infeasible, or unsupported
    return std::nullopt;
  }
}

std::optional<placed_plan> plan_of_rival(const problem& p, const placer& place, const question& q,
                                         nanoseconds to_beat) {
  for (const byte_count permille : asked_for) {
    std::optional<placed_plan> now = answer(p, place, q, permille, to_beat);
    if (!now || now->need <= p.budget) return now;
  }
  return std::nullopt;
}

}  // namespace

std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> by,
                                      bool same_bits, nanoseconds to_beat) {
  const allowed_moves swaps{p.on.link_to_device_bytes_per_s > 0 && p.on.link_to_host_bytes_per_s > 0, false};
  const passes x = split_passes(p);
  const bool swaps_win = x.backward_time == 0 || bound_passes(x, p.on, p.budget, swaps).min_time < to_beat;
  std::optional<placed_plan> best;
  std::optional<question> won;
  const auto take = [&](std::optional<placed_plan> now, const question& q) {
    if (!now || now->need > p.budget || now->time >= to_beat) return;
    to_beat = now->time;
    best = std::move(now);
    won = q;
  };
  for (const strategy& s : by) {
    if (!is_asked(s) || (same_bits && !s.same_bits) || (only_swaps(s) && !swaps_win)) continue;
    for (knob_values& knobs : knobs_for(s)) {
      const question q{&s, std::move(knobs)};
      take(plan_of_rival(p, place, q, to_beat), q);
    }
  }
  // Who wins may be faster yet with less: most planners are not monotonic.
  if (won) {
    const question winner = *won;
    for (const byte_count permille : asked_too) take(answer(p, place, winner, permille, to_beat), winner);
  }
  return best;
}

}  // namespace um
