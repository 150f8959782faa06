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
  // Call find_first_readers() before. Changes only gaps with swap_timing::early. First delays returns where
  // bytes alive exceed the budget. It begins with the part whose first reader is the latest.
  // Then lets parts leave earlier where bytes still exceed it. Returns whether a decision changed.
  bool fit(std::span<const std::uint32_t> swapped, const std::vector<swap_timing>& timing,
           std::span<const byte_count> live_at_positions, byte_count budget,
           std::vector<decision>& decisions);

 private:
  byte_count& live_at(position at) { return live_bytes_[static_cast<std::size_t>(at)]; }
  bool return_later(std::uint32_t x, byte_count budget, position& return_before);
  bool leave_earlier(std::uint32_t x, byte_count budget, position& leave_after);

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
