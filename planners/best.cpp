// The best plan that a search finds: keep, swap or compute again for every tensor, and how to cut the batch.
#include "planners/best.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "core/layout.hpp"
#include "planners/best_search.hpp"
#include "planners/planners.hpp"
#include "schedule/orders.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

struct found {
  trial of;
  byte_count aim = 0;  // what was decided for, so that it fits
};

// How much is tried: for each of several ways to cut the batch, and for the best of them.
struct effort {
  std::size_t least = 0, most = 0;  // for each class of gaps
  int packings = 0;
};
constexpr effort a_look{12, 12, 3}, thorough{20, 300, 6};
constexpr std::size_t enough = 70'000'000;  // classes times computes times tries for each

// How the batch goes through, and whether tensors may move.
struct course {
  loops by;
  bool moves = true;
};

struct decided {
  std::optional<found> best;
  bool but_for_packing = false;  // decisions are within what was aimed at, packed or not
};

// Decides for an order and packs, for less than the budget by what packing needs more, and again.
decided plan_with(const problem& p, const trying& as, const course& c, nanoseconds to_beat, byte_count aim,
                  const effort& e) {
  choices of(p, order_of(p.network, c.by), c.moves);
  if (of.computing() >= to_beat) return {};
  const std::size_t size = std::max<std::size_t>(of.classes().size() * of.uses().order.size(), 1);
  const std::size_t tries = std::clamp(enough / size, e.least, e.most);
  settled s = settle(of, aim, tries);
  decided d{std::nullopt, s.is.over == 0};
  std::optional<found>& best = d.best;
  byte_count fits = 0;                    // the most that was aimed at and packed
  byte_count settled_for = aim;           // the least that was aimed at and decided for
  std::optional<std::vector<way>> tried;  // the decisions last packed,
  std::optional<byte_count> need;         // and what they need, if there is such a plan
  for (int i = 0; i < e.packings; ++i) {
    if (i > 0) s = settle_again(of, aim, tries / 8, s);
    if (s.is.over == 0 && s.is.said.time >= to_beat && !best) break;
    if (s.is.over > 0 && aim < settled_for) aim += (settled_for - aim) / 2;
    if (s.is.over > 0 || s.is.said.time >= to_beat) continue;
    settled_for = std::min(settled_for, aim);
    std::optional<trial> now;
    if (s.ways != tried) {
      now = as(of.plan(s.ways));
      tried = s.ways;
      need = now ? std::optional(now->need) : std::nullopt;
    }
    if (!need) {  // with other decisions it may
      aim -= aim / 20;
    } else if (*need <= p.budget) {
      if (now) now->time += of.toll_of(s.is.said);
      if (now && now->time < to_beat) {
        to_beat = now->time;
        best = {std::move(*now), aim};
      }
      if (aim == p.budget) break;
      fits = aim;
      aim += (p.budget - aim) / 3;
    } else {
      aim = std::max(fits, aim - std::min(aim, (*need - p.budget) * 3 / 4 + p.budget / 1000));
    }
  }
  return d;
}

// What another planner makes of the same problem, if it can. Where its data is to live elsewhere than it
// thinks, more may be needed: decisions for less leave room for it.
std::optional<found> plan_by(memory_plan (*other)(const problem&), const problem& p, const trying& as) {
  for (const byte_count permille : {1000U, 950U, 880U, 760U}) {
    problem smaller = p;
    smaller.budget = p.budget / 1000 * permille + p.budget % 1000 * permille / 1000;
    try {
      std::optional<trial> now = as(other(smaller));
      if (!now) return std::nullopt;
      if (now->need <= p.budget) return found{std::move(*now), p.budget};
    } catch (const infeasible&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// How many parts the batch may go through in, 1 first; in `why` what is in the way of more.
std::vector<std::uint32_t> ways_to_cut(const graph& g, std::string& why) {
  std::vector<std::uint32_t> all{1};
  try {
    for (const std::uint32_t k : {2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 32U}) {
      if (batch_of(g) % k != 0) continue;
      order_of(g, {k, {}, large_gradients(g)});
      all.push_back(k);
    }
  } catch (const infeasible& refused) {
    why = std::string("; ") + refused.what();
  }
  return all;
}

bool can_stream(const problem& p) {
  return p.on.link_to_device_bytes_per_s > 0 && p.on.link_to_host_bytes_per_s > 0;
}
memory_plan plan_pooch_complete(const problem& p) {
  problem classified = p;
  classified.knobs = complete(*find(planners(), "pooch"), {});
  return plan_pooch(classified);
}
memory_plan plan_ooc_kept_or_not(const problem& p) {
  problem kept = p;
  kept.knobs = {{"keep", 1}, {"share", 90}};
  return plan_ooc_cudnn(kept);
}

// In the device's arena and at home in pinned memory.
std::optional<trial> explicitly(const problem& p, memory_plan plan) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  const execution_plan steps = lower(unlimited, plan, packers::searched);
  trial t{std::move(plan), steps.device_arena_bytes, 0};
  if (t.need <= p.budget) t.time = simulated_time(p, steps, 1);
  return t;
}

}  // namespace

nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations) {
  // The simulator asks for the link's rates even where nothing moves.
  if (can_stream(p)) return simulate(p, steps, iterations).back().duration;
  nanoseconds computing = 0;
  for (const step& s : steps.steps) {
    if (const auto* c = std::get_if<compute>(&s.what)) computing += cost_of(p, *c).time;
  }
  return computing;
}

memory_plan plan_best(const problem& p) {
  memory_plan resident = plan_resident(p);
  if (footprint_of(p.network, p.costs).total <= p.budget) return resident;
  return plan_best(p, [&](memory_plan plan) { return explicitly(p, std::move(plan)); }, false, "best");
}

memory_plan plan_best(const problem& p, const trying& as, bool and_without, const std::string& strategy) {
  const bool same_bits = p.knobs.at("bits") == 1;
  std::optional<found> best;
  bool but_for_packing = false;
  const auto consider = [&](const course& c, const effort& e, byte_count aim, nanoseconds to_beat) {
    const decided next = plan_with(p, as, c, to_beat, aim, e);
    but_for_packing = but_for_packing || next.but_for_packing;
    if (next.best && (!best || next.best->of.time < best->of.time)) best = next.best;
    return next.best;
  };
  constexpr nanoseconds any_time = std::numeric_limits<nanoseconds>::max();
  const auto least_time = [&] { return best ? best->of.time : any_time; };
  // Plans that fill the budget rarely fit it in whole blocks: large networks ask for them only in need.
  constexpr std::size_t small = 200;
  const auto consider_other = [&](memory_plan (*other)(const problem&)) {
    if (and_without && best && p.network.ops.size() > small) return;
    auto next = plan_by(other, p, as);
    if (next && (!best || next->of.time < best->of.time)) best = std::move(next);
  };
  const std::vector<op_id> late = large_gradients(p.network);
  std::string why;
  const std::vector<std::uint32_t> ways =
      same_bits ? std::vector<std::uint32_t>{1} : ways_to_cut(p.network, why);
  std::vector<course> courses;
  for (const std::uint32_t k : ways) {
    if (and_without) courses.push_back({{k, {}, late}, false});
    courses.push_back({{k, {}, late}, true});
  }
  nanoseconds computing = 0;
  for (const op_cost& c : p.costs) computing += c.time;
  const auto is_far = [&](nanoseconds percent) {
    return !best || best->of.time > computing * (100 + percent) / 100;
  };
  // A look may err about how to cut: what comes near the best gets a thorough one as well, and so does the
  // next where that stays slow.
  struct looked_into {
    course by;
    nanoseconds time = 0;
    byte_count aim = 0;
  };
  const auto nearly = [](nanoseconds time) { return time == any_time ? time : time + time / 20; };
  std::vector<looked_into> looks;
  if (courses.size() > 1) {
    for (const course& c : courses) {
      const auto seen = consider(c, a_look, p.budget, nearly(least_time()));
      if (seen) looks.push_back({c, seen->of.time, seen->aim});
    }
  }
  if (looks.empty()) looks.push_back({courses.front(), any_time, p.budget});
  std::ranges::stable_sort(looks, {}, &looked_into::time);
  constexpr std::size_t most_looks = 3;
  for (std::size_t i = 0; i < std::min(looks.size(), most_looks); ++i) {
    if (i == 0 || is_far(10) || looks[i].time <= nearly(least_time()))
      consider(looks[i].by, thorough, looks[i].aim, least_time());
  }
  // Packing, and whole blocks of managed memory even more so, may take more than what lies in them.
  for (const byte_count permille : {1000U, 950U, 900U}) {
    if (!best && (and_without || (but_for_packing && permille < 1000)))
      consider({{1, {}, late}, true}, thorough, p.budget / 1000 * permille, any_time);
  }
  // Others are asked where something is left to gain, and where they do not take long: for small networks.
  const auto may_gain = [&](nanoseconds percent, std::size_t most_operators) {
    return !best || (is_far(percent) && p.network.ops.size() <= most_operators);
  };
  if (may_gain(0, 2 * small)) consider_other(plan_checkmate);  // its greedy choice sometimes ends lower
  if (can_stream(p) && may_gain(3, small)) consider_other(plan_pooch_complete);
  // Cut along channels and rows as well, what is streamed part by part goes where nothing above does.
  if (!same_bits && can_stream(p) && may_gain(10, 100)) consider_other(plan_ooc_kept_or_not);
  if (!best) {
    throw infeasible(strategy + " finds no plan within " + to_text(p.budget) + " of the " +
                     to_text(footprint_of(p.network, p.costs).total) + " that everything takes" +
                     (and_without ? "; managed memory takes whole blocks" : "") + why);
  }
  return std::move(best->of.plan);
}

}  // namespace um
