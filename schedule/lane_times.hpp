// Three lanes that run concurrently, each in order: kernels, copies to the device and copies to the host.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/trace.hpp"
#include "schedule/uses.hpp"

namespace um {

// One event in each lane; -1: none.
using last_events = std::array<std::int32_t, lane_count>;
inline void merge_latest(last_events& into, const last_events& from) {
  for (std::size_t l = 0; l < lane_count; ++l) into[l] = std::max(into[l], from[l]);
}

// One event of a lane. It begins when the events of other lanes that it waits for have ended.
struct lane_step {
  std::int32_t event = 0;
  part_id copied_part = 0;     // the part, if this is a copy
  nanoseconds time_alone = 0;  // duration of a copy while the other direction is idle
  last_events waits_for{-1, -1, -1};
};
using lane_steps = std::array<std::vector<lane_step>, lane_count>;

// Speed of copies while both directions are busy, in thousandths of full speed.
inline constexpr std::int64_t full_pace = 1000;
struct shared_pace {
  std::int64_t to_device = full_pace, to_host = full_pace;
};

// Time until all lanes have finished. Stops as soon as that is known to exceed `max_time`, and then returns
// some time above it.
nanoseconds time_of_lanes(const lane_steps& lanes, const shared_pace& pace, nanoseconds max_time);

}  // namespace um
