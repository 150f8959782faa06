// Local search that compares placed plans. A forecast knows no addresses, so it differs from the placed
// plan's time by several percent.
#pragma once

#include "planners/best_place.hpp"
#include "planners/best_search.hpp"

namespace um {

// A placed plan and its decisions. Its copies may begin and end at other positions than decisions_for()
// chooses.
struct placed_decisions {
  std::vector<treatment> treatments;
  std::vector<decision> decisions;  // those that were placed
  placed_plan placed;
};

// Work, in units of search_space::work, that takes as long as placing one plan of this space. Placing takes
// 10 to 240 us, mostly 125, for each compute of a plan of ResNet-50 or a U-Net; a unit of work takes 25 to 33
// ns.
std::uint64_t work_of_placing(const search_space& of);

// Starts from the placed decisions. Applies every change that makes the placed plan faster within the budget:
// other treatments for one class; exchanges of two classes; single copies moved by one position. `work`:
// limit in units of search_space::work.
placed_decisions polish(search_space& of, const placer& place, byte_count budget, placed_decisions from,
                        std::uint64_t work);

}  // namespace um
