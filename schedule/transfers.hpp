// When what is swapped travels: late enough to take little room, early enough to be there in time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// How much longer than forecast a copy may take without anybody waiting for it.
struct allowance {
  std::int64_t percent = 0;  // percent of the copy's time
  nanoseconds each = 0;      // fixed time for each copy
};

struct swapped_gap {
  std::uint32_t which = 0;  // index of the gap
  bool in_time = false;     // comes back right before its next use
};

// Sets `leave` and `back` of swaps. Refers to all.
class transfer_placing {
 public:
  transfer_placing(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                   const allowance& late = {});

  // Of all that are swapped, by number of the gap. Each keeps its room until its copy can be over, so that
  // nobody waits for it, and comes back as late as the link allows if all are to be there before their next
  // use; computes take what the forecaster says, nothing being computed again, copies as much and their
  // allowance. Those `in_time` take the least room: they leave right behind their last use and come back
  // right before the next.
  void place(std::span<const swapped_gap> swapped, std::vector<decision>& decisions) const;

 private:
  nanoseconds time_of_copy(std::uint32_t x, lane where) const;

  const forecaster& costs_;
  const use_table& uses_;
  std::span<const gap> gaps_;
  allowance late_;
  std::vector<nanoseconds> starts_;  // per position, and one past the last
};

// The same of every swap among `decisions`; `in_time`: per gap.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions);

}  // namespace um
