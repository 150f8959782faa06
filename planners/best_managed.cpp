// The decisions of `best`, with the data in managed memory.
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/lower.hpp"
#include "core/verify.hpp"
#include "planners/best.hpp"
#include "planners/planners.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

// Which tensors become managed. A tensor's managed range is its own from its first compute to its last, so
// that what is given up and computed again in between would have to be discarded and populated each time.
enum class reach : std::uint8_t {
  everything,  // but what is given up in between; what is swapped has a twin
  lasting,     // what outlives an iteration and stays where it is; what is swapped has a twin
  given,       // of that, what an iteration begins with: gradients share the device's arena
  large,       // of that, what fills a block: of what is smaller most of a block would lie idle
};

memory_plan in_managed_memory(const graph& g, memory_plan plan, reach how) {
  std::vector<bool> given_up(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* d = std::get_if<discard>(&a)) given_up[d->what] = true;
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const role use = g.tensors[t].use;
    const bool fills = how != reach::large || bytes_of(g.tensors[t]) >= managed_block;
    const bool lasts = fills && (persists(use) || (how == reach::lasting && survives(use)));
    residence& home = plan.home[t];
    if (home == residence::staged) {
      home = residence::twinned;
    } else if (!given_up[t] && (lasts || how == reach::everything)) {
      home = residence::managed;
    }
  }
  return plan;
}

struct timed_plan {
  memory_plan plan;
  nanoseconds time = 0;  // of an iteration after the first
};

// Nothing where it takes more than the budget, or cannot be.
std::optional<timed_plan> timed(const problem& p, memory_plan plan) {
  if (defect_of(p.network, plan)) return std::nullopt;
  problem kept = p;
  kept.under = pressure::plan;
  execution_plan steps;
  try {
    lower(kept, plan, packers::searched);
    steps = lower(p, plan, packers::searched);
  } catch (const infeasible&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {  // parts with a twin move by whole blocks only
    return std::nullopt;
  }
  // The simulator asks for the link's rates even where nothing moves.
  const bool links = p.on.link_to_device_bytes_per_s > 0;
  const nanoseconds time = links ? simulate(p, steps, 2).back().duration : 0;
  return timed_plan{std::move(plan), time};
}

bool moves_data(const memory_plan& plan) {
  return std::ranges::any_of(plan.actions, [](const action& a) {
    return std::holds_alternative<prefetch>(a) || std::holds_alternative<evict>(a);
  });
}

}  // namespace

memory_plan plan_best_managed(const problem& p) {
  std::optional<timed_plan> best;
  const auto consider = [&](const memory_plan& decided) {
    bool fits = false;
    for (const reach how : {reach::everything, reach::lasting, reach::given, reach::large}) {
      if (how == reach::large && best) break;
      memory_plan managed = in_managed_memory(p.network, decided, how);
      if (std::ranges::none_of(managed.home, is_managed)) continue;  // that would be `best`
      std::optional<timed_plan> now = timed(p, std::move(managed));
      if (!now) continue;
      fits = true;
      if (!best || now->time < best->time) best = std::move(now);
    }
    return fits;
  };
  // Two arenas and whole blocks take more room than one: decisions for less leave it.
  std::string why;
  for (const bool moves : {true, false}) {
    if (!moves && best && !moves_data(best->plan)) break;
    for (const byte_count permille : {1000U, 950U, 880U, 760U}) {
      problem smaller = p;
      smaller.budget = p.budget / 1000 * permille;
      try {
        if (consider(plan_best(smaller, moves))) break;
      } catch (const infeasible& refused) {
        why = refused.what();
        break;
      }
    }
  }
  if (!best) {
    throw infeasible("best_managed finds no plan within " + to_text(p.budget) +
                     (why.empty() ? ": managed memory takes whole blocks" : "; " + why));
  }
  return std::move(best->plan);
}

}  // namespace um
