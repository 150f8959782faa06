// The integer program over the gaps of an order of computes (tvDNN's integer program, Park et al., PPoPP
// 2018, and Checkmate's, Jain et al., MLSys 2020, in the form of intervals without a tensor).
//
// For every gap and time slot: whether the part's memory is released and reacquired; the shares of its copies
// out and in; whether it is computed again, which needs its inputs. In each slot computes, copies in and
// copies out overlap, and the slot lasts as long as the longest of them. Not modelled: the order of copies
// within a slot, the slowdown of copies in both directions at once, workspaces of recomputations, packing.
#pragma once

#include <cstddef>

#include "core/units.hpp"

namespace um {

struct gap_program_options {
  byte_count memory_bytes = 0;
  bool swaps = true, recomputes = true;
  // The order is cut into at most this many slots of about equal time. Decisions change only between slots.
  // One slot per position makes the program exact.
  std::size_t max_slots = 400;
  byte_count min_part_bytes = MiB;  // smaller parts never leave the device
};

}  // namespace um
