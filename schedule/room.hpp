// How long what is swapped may keep room beyond what it must.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// Of bytes alive at every event, the most at each position: what happens before a compute counts with it.
std::vector<byte_count> live_at_positions(const use_table& uses, std::span<const event> events,
                                          std::span<const byte_count> live);

struct room_found {
  byte_count peak = 0;    // with every swap resident as briefly as possible; the budget must be at least this
  position at = 0;        // position of the peak
  nanoseconds again = 0;  // time of recomputations
  std::vector<std::uint32_t> stalled;  // gaps whose copy to the host somebody waits for, in that order
  // The last forecast, if it was for the events of these decisions; input of add_time().
  std::optional<prediction> last_forecast;
};

// Sets `leave` and `back` of every swap for a budget of `room` bytes, as an allocator would that waits only
// when it is full. Each keeps its room until its copy is over by the forecaster's times; where the room runs
// out, what left first is waited for and given up first (PoocH's forward simulation; AutoSwap's delayed
// allocations). `back` comes with the earliest position that is wished for; it becomes the first from which
// the room lasts, in the order of need. What something that is computed again needs before its own use comes
// back then and stays.
room_found fit_transfers(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);
// The same for searches, with the builder of these uses and gaps.
room_found fit_transfers(event_builder& builder, const use_table& uses, const std::vector<gap>& gaps,
                         forecaster& costs, byte_count room, std::vector<decision>& decisions);

}  // namespace um
