// Fits the times of swaps to recomputations and to a budget, fast enough for every decision that a search
// tries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/change_evaluator.hpp"
#include "schedule/transfers.hpp"

namespace um {

// Keeps references to the uses and the gaps.
class swap_fitter {
 public:
  swap_fitter(const use_table& uses, std::span<const gap> gaps);

  // Per gap, the first position that uses its part or recomputes another part from it. Valid until the next
  // call.
  std::span<const position> find_first_readers(std::span<const decision> decisions);
  // Call find_first_readers() before. Changes only gaps with swap_timing::early. Where bytes alive exceed
  // the budget, delays returns and lets parts leave earlier. The copy that moves by the fewest positions
  // moves first, since it delays computes the least. Returns whether a decision changed.
  bool fit(std::span<const std::uint32_t> swapped, const std::vector<swap_timing>& timing,
           std::span<const byte_count> live_at_positions, byte_count budget,
           std::vector<decision>& decisions);

 private:
  struct shift {
    std::uint32_t gap = 0;
    position positions = 0;  // 0: none
    bool is_return = false;  // the part returns later; otherwise it leaves earlier
  };
  byte_count& live_at(position at) { return live_bytes_[static_cast<std::size_t>(at)]; }
  // Returns the shortest shift that frees memory where bytes alive exceed the budget.
  shift find_shortest_shift(byte_count budget, std::span<const decision> decisions);

  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<std::uint32_t> recomputable_gaps_;  // the latest producer first
  std::vector<std::vector<std::uint32_t>>
      input_gaps_;                         // per gap: gaps of the parts that its recomputation reads
  std::vector<position> first_readers_;    // per gap
  std::vector<std::uint32_t> early_gaps_;  // scratch of fit()
  std::vector<byte_count> live_bytes_;     // scratch of fit(): per position
};

}  // namespace um
