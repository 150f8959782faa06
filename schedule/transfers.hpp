// Chooses when swapped parts are copied: late enough to use little memory, early enough to delay nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// How much longer than forecast a copy may take without delaying anything.
struct copy_slack {
  std::int64_t percent = 0;  // in percent of the copy's time
  nanoseconds fixed = 0;     // and a fixed time for each copy
};

// How a gap is swapped. `just_in_time`: the part leaves right after its last use and returns right before the
// next, without slack. `back_late`: it leaves as if early and returns as if just in time.
enum class swap_timing : std::uint8_t { none, early, just_in_time, back_late };

// Sets `leave_after` and `return_before` of swaps. Keeps references to the uses and the gaps.
class transfer_placer {
 public:
  transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                  const copy_slack& late = {});

  // Places all gaps that `timing`, per gap, swaps; other decisions stay. A part keeps its memory until its
  // copy can have ended, so that nothing waits for it. It returns as late as the link allows if all parts are
  // to be back before their next use. Times are the forecaster's without recomputations, and the slack is
  // added to each copy.
  void place(const std::vector<swap_timing>& timing, std::vector<decision>& decisions);
  // The gaps that were placed last, in order.
  std::span<const std::uint32_t> swapped_gaps() const { return swapped_gaps_; }

 private:
  struct gap_copy {
    std::uint32_t gap = 0;  // index into gaps
    nanoseconds time = 0;   // with slack
  };
  // A list: copies of all gaps in one direction, in the order in which they are placed.
  class copy_order {
   public:
    void add(const gap_copy& c) { copies_.push_back(c); }
    void sort(std::size_t gaps, const auto& by);
    // Calls `visit` with the copies of these gaps, in order.
    void for_each_of(std::span<const std::uint32_t> gaps, const auto& visit);

   private:
    std::vector<gap_copy> copies_;
    std::vector<std::uint32_t> rank_;    // per gap: index into copies_; no_copy: it has none
    std::vector<std::uint64_t> chosen_;  // a bit for each of copies_
  };

  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<nanoseconds> start_times_;     // per position, and one past the last: when its compute starts
  copy_order to_device_, to_host_;           // by next use, the latest first; by last use
  std::vector<std::uint32_t> swapped_gaps_;  // of the last place()
};

// Places every swap among `decisions`, none just in time.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     std::vector<decision>& decisions);

}  // namespace um
