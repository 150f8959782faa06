#include "planners/within.hpp"

#include <algorithm>

#include "core/lower.hpp"

namespace um {

memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  byte_count room = p.budget, arena = 0;
  for (int tries = 0; tries < 10; ++tries) {
    memory_plan plan;
    try {
      plan = make(room);
    } catch (const infeasible&) {
      if (tries == 0) throw;
      break;
    }
    arena = lower(unlimited, plan, how).device_arena_bytes;
    if (arena <= p.budget) return plan;
    const byte_count step = std::min((arena - p.budget) / 2, p.budget / 25);
    room -= std::min(room, step + p.budget * static_cast<byte_count>(tries + 1) / 500);
  }
  throw infeasible(strategy + " finds no plan that packs into the budget: the last that it made takes " +
                   to_text(arena) + ", the budget is " + to_text(p.budget));
}

}  // namespace um
