#include "planners/best_place.hpp"

#include "planners/best_space.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

bool can_stream(const problem& p) {
  return p.target.link_to_device_bytes_per_s > 0 && p.target.link_to_host_bytes_per_s > 0;
}

}  // namespace

nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations) {
  // The simulator asks for the link's rates even where nothing moves.
  if (can_stream(p)) return simulate(p, steps, static_cast<std::uint32_t>(iterations)).back().duration;
  nanoseconds computing = 0;
  for (const step& s : steps.steps) {
    if (const auto* c = std::get_if<compute>(&s.command)) computing += cost_of(p, *c).time;
  }
  return computing;
}

nanoseconds time_with_copy_price(const problem& p, const execution_plan& steps, int iterations) {
  byte_count to_device = 0, to_host = 0;
  std::int64_t copies = 0;
  for (const step& s : steps.steps) {
    if (!s.is_needed || s.copies.empty()) continue;
    byte_count& bytes = s.in_lane == lane::to_host ? to_host : to_device;
    for (const pitched_copy& c : s.copies) bytes += bytes_of(c);
    ++copies;
  }
  return simulated_time(p, steps, iterations) + copy_price(p, to_device, to_host, copies);
}

}  // namespace um
