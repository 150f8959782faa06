// Chooses when swapped parts are copied: late enough to use little memory, early enough to delay nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// How much longer than forecast a copy may take without delaying anything.
struct copy_slack {
  std::int64_t percent_of_copy = 0;
  nanoseconds fixed = 0;  // fixed time added to each copy
};

// When the part of a gap leaves and returns. `early`: so that copies delay nothing. `just_in_time`: leaves
// right after its last use and returns right before the next, without slack. `back_late`: leaves as with
// early and returns as with just_in_time.
enum class swap_timing : std::uint8_t { none, early, just_in_time, back_late };

// Sets `leave_after` and `return_before` of swaps. Keeps references to the uses and the gaps.
class transfer_placer {
 public:
  transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                  const copy_slack& slack = {});

  // Sets the decisions of all gaps that `timing` (per gap) swaps; other decisions stay. A part keeps its
  // memory until its copy can have ended, so that nothing waits for it. It returns as late as possible if all
  // parts are to be back before their next use. Times are the forecaster's without recomputations, and the
  // slack is added to each copy. `needed_before`: per gap, the position before which its part is needed;
  // empty: the gaps' next uses.
  void place(const std::vector<swap_timing>& timing, std::vector<decision>& decisions,
             std::span<const position> needed_before = {});
  // The gaps swapped by the last place(), in ascending order.
  std::span<const std::uint32_t> swapped_gaps() const { return swapped_gaps_; }

 private:
  struct timed_gap_copy {
    std::uint32_t gap = 0;  // index into gaps
    nanoseconds time = 0;   // time of the copy, with slack
  };
  // Copies of all gaps in one direction, sorted in the order in which they are placed.
  class ordered_copies {
   public:
    void add(const timed_gap_copy& c) { copies_.push_back(c); }
    void sort(std::size_t gaps, const auto& by);
    // Calls `visit` with the copies of these gaps, in order.
    void visit_in_order(std::span<const std::uint32_t> gaps, const auto& visit);

   private:
    std::vector<timed_gap_copy> copies_;
    std::vector<std::uint32_t> rank_;    // per gap: index into copies_; no_copy: it has none
    std::vector<std::uint64_t> chosen_;  // a bit per copy: whether it is visited
  };

  void find_swapped_gaps(const std::vector<swap_timing>& timing);
  void place_returns(const std::vector<swap_timing>& timing, std::vector<decision>& decisions,
                     std::span<const position> needed_before);

  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<nanoseconds> start_times_;     // per position, and one past the last: when its compute starts
  ordered_copies to_device_, to_host_;       // sorted by falling next use; by rising last use
  std::vector<std::uint32_t> swapped_gaps_;  // gaps swapped by the last place()
  std::vector<timed_gap_copy> returning_;    // scratch of place_returns()
};

// Sets the times of every swap among `decisions`, all with swap_timing::early.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     std::vector<decision>& decisions);

}  // namespace um
