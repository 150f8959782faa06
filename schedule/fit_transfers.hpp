// Chooses when swapped parts leave and return, within a memory budget.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// Per position, the maximum of the bytes alive at its events. Events before a compute count as its own.
std::vector<byte_count> live_at_positions(const use_table& uses, std::span<const event> events,
                                          std::span<const byte_count> live);

// Maximum number of attempts to let parts return where recomputations need them.
inline constexpr int most_minimum_tries = 4;

struct fit_result {
  byte_count peak =
      0;  // with every swapped part on the device as briefly as possible; a budget below it is infeasible
  position peak_position = 0;               // position of that peak
  nanoseconds recompute_time = 0;           // time of all recomputations
  std::vector<std::uint32_t> stalled_gaps;  // gaps whose copy to the host delays something, in order
  // The last memory forecast, if it describes the resulting decisions: input for add_time().
  std::optional<prediction> last_forecast;
};

// Sets `leave_after` and `return_before` of every swap for a budget of `room` bytes. It imitates an allocator
// that waits only when it is full. A part keeps its memory until its copy ends, by the forecaster's times.
// When memory runs out, the oldest copy is waited for (PoocH's forward simulation; AutoSwap's delayed
// allocations). On entry `return_before` is the earliest position wanted; on return it is the first from
// which the memory is free, in the order of need. A part that a recomputation needs earlier than its own use
// returns then and stays.
fit_result fit_transfers(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);
// The same with an existing builder of these uses and gaps, for searches.
fit_result fit_transfers(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);

}  // namespace um
