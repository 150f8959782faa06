// An order of computes as a mixed-integer program over its gaps (tvDNN's integer program, Park et al., PPoPP
// 2018, and Checkmate's, Jain et al., MLSys 2020, in the form of intervals without a tensor).
//
// For every gap and slot of time: whether the part's memory is given up, and taken back; shares of its copies
// out and in; whether it is computed again, which needs its inputs. In each slot computes, copies in and
// copies out overlap, and the slot lasts as long as the longest of them. Not modelled: the order of copies
// within a slot, that copies both ways at once are slower, workspaces of what is computed again, packing.
#pragma once

#include <cstddef>

#include "core/units.hpp"

namespace um {

struct gap_program {
  byte_count room = 0;
  bool swaps = true, recomputes = true;
  // The order is cut into at most that many runs of operators, of about equal time. Choices change only where a
  // run ends. One run per position makes the program exact.
  std::size_t slots = 400;
  byte_count smallest = MiB;  // smaller parts never leave the device
};

}  // namespace um
