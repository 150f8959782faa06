// Chooses when swapped parts leave and return, within a memory budget.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// Per position, the maximum of the bytes alive at its events. Events before a compute belong to its position.
std::vector<byte_count> live_at_positions(const use_table& uses, std::span<const event> events,
                                          std::span<const byte_count> live_at_events);

// Maximum number of attempts to let parts return early enough for recomputations that need them.
inline constexpr int max_return_attempts = 4;

struct fit_result {
  // Minimum peak: swapped parts are on the device as briefly as possible. A smaller budget is infeasible.
  byte_count peak = 0;
  position peak_position = 0;               // position of that peak
  nanoseconds recompute_time = 0;           // time of all recomputations
  std::vector<std::uint32_t> stalled_gaps;  // gaps whose copy to the host delays a later compute, in order
  // The memory forecast of the resulting decisions, if there is one: input for add_time().
  std::optional<prediction> last_forecast;
};

// Sets `leave_after` and `return_before` of every swap for a budget of `room` bytes. Imitates an allocator
// that waits only when memory is full. A part keeps its memory until its copy ends, by the forecaster's
// times. When memory runs out, computing waits for the oldest copy (PoocH's forward simulation; AutoSwap's
// delayed allocations). On entry `return_before` is the earliest position wanted; on return it is the first
// position from which memory is free, in the order of next use. A part that a recomputation needs before its
// own use returns for that and stays.
fit_result fit_transfers(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);
// The same with an existing builder of these uses and gaps, for searches.
fit_result fit_transfers(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);

}  // namespace um
