// Local search by the time of placed plans: forecasts know no addresses, and miss it by several percent.
#pragma once

#include "planners/best_place.hpp"
#include "planners/best_search.hpp"

namespace um {

// A placed plan and what it decides; its copies may leave and return at other times than decisions_for()
// says.
struct placed_decisions {
  std::vector<treatment> treatments;
  placed_plan placed;
};

// Packing takes about as long as so much search_space::work: 10 to 240 us, mostly 125, for each compute of a
// plan, on ResNet-50 and a U-Net, where a unit takes 25 to 33 ns.
std::uint64_t work_of_placing(const search_space& of);

// Changes one decision at a time, with copies early or fitted to the budget, exchanges two, then moves single
// copies by one position, as long as that makes the placed plan faster within the budget. `work`: limit, as
// in search_space::work.
placed_decisions polish(search_space& of, const placer& place, byte_count budget, placed_decisions from,
                        std::uint64_t work);

}  // namespace um
