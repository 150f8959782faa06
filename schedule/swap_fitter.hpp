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
  // Where bytes alive (per position) exceed the budget, lets parts of these gaps with swap_timing::early
  // return later, those that are needed last first, and then leave earlier. Parts are needed by the readers
  // found last. Returns whether a decision changed.
  bool fit(std::span<const std::uint32_t> swapped, const std::vector<swap_timing>& timing,
           std::span<const byte_count> live_bytes, byte_count budget, std::vector<decision>& decisions);

 private:
  byte_count& live_at(position at) { return live_bytes_[static_cast<std::size_t>(at)]; }
  bool return_later(std::uint32_t x, byte_count budget, position& return_before);
  bool leave_earlier(std::uint32_t x, byte_count budget, position& leave_after);

  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<std::uint32_t> recomputable_gaps_;  // the last producer first
  std::vector<std::vector<std::uint32_t>>
      input_gaps_;                         // per gap: gaps of the parts that its recomputation reads
  std::vector<position> first_readers_;    // per gap
  std::vector<std::uint32_t> early_gaps_;  // scratch of fit()
  std::vector<byte_count> live_bytes_;     // scratch of fit(): per position
};

}  // namespace um
