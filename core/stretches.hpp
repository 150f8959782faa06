// The compute lane in stretches that can be launched at once: nothing within one waits for another lane, and
// no other lane waits for anything within.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/lower.hpp"

namespace um {

struct stretch {
  std::uint32_t first = 0, last = 0;  // steps of the compute lane, between which those of other lanes may lie
};

struct launch_order {
  // For each step what it still has to wait for: lanes keep their order, so whoever waited for a step of a
  // lane has waited for all before it, and so have the later steps of its own lane.
  std::vector<last_steps> after;
  std::vector<bool> awaited;       // steps that some step still has to wait for
  std::vector<stretch> stretches;  // all of the compute lane, in order
};

// Of a plan whose steps wait on streams alone.
launch_order launch_order_of(std::span<const step> steps);

}  // namespace um
