// The decisions of `best`, with the data in managed memory.
#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "core/placement.hpp"
#include "core/verify.hpp"
#include "planners/best.hpp"
#include "planners/planners.hpp"

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

// What an operator takes longer that is launched by itself, as it must be while managed memory moves, than in
// a recording of many (results/study/README.md).
constexpr nanoseconds launched_alone = 3000;

nanoseconds toll_of_launches(const execution_plan& plan) {
  const auto alone = [](const step& s) { return s.launch == launching::as_operator; };
  return launched_alone * std::ranges::count_if(plan.steps, alone);
}

// Nothing where it cannot be.
std::optional<trial> try_in(const problem& p, const memory_plan& decided, reach how) {
  problem kept = p;
  kept.under = pressure::plan;
  kept.budget = std::numeric_limits<byte_count>::max();
  try {
    memory_plan managed = in_managed_memory(p.network, decided, how);
    if (std::ranges::none_of(managed.home, is_managed)) return std::nullopt;  // that would be `best`
    const verified_plan plan = verified(p.network, std::move(managed));
    const placement at(kept, plan.plan(), packers::searched);
    trial t{plan.plan(), lower(kept, plan, at).peak_device_bytes, 0};
    if (t.need <= p.budget) {
      const execution_plan steps = lower(p, plan, at);
      t.time = simulated_time(p, steps, 2) + toll_of_launches(steps);
    }
    return t;
  } catch (const std::invalid_argument&) {  // parts with a twin move by whole blocks only
    return std::nullopt;
  }
}

// In whichever reach takes the least time, or, where none is within the budget, the least room.
std::optional<trial> in_best_reach(const problem& p, const memory_plan& decided) {
  std::optional<trial> best;
  for (const reach how : {reach::everything, reach::lasting, reach::given, reach::large}) {
    if (how == reach::large && best && best->need <= p.budget) break;
    std::optional<trial> now = try_in(p, decided, how);
    if (!now) continue;
    const auto rank = [&](const trial& t) { return std::tuple(std::max(t.need, p.budget), t.time); };
    if (!best || rank(*now) < rank(*best)) best = std::move(now);
  }
  return best;
}

}  // namespace

memory_plan plan_best_managed(const problem& p) {
  const trying as = [&](const memory_plan& plan) { return in_best_reach(p, plan); };
  if (footprint_of(p.network, p.costs).total <= p.budget) {
    std::optional<trial> resident = as(plan_resident(p));
    if (resident && resident->need <= p.budget) return std::move(resident->plan);
  }
  return plan_best(p, as, true, "best_managed");
}

}  // namespace um
