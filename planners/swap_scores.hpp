// AutoSwap's choice of blocks to swap (Zhang et al., arXiv 1903.06631), for tensors of a network and for
// lifetimes that another program's allocator recorded.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/units.hpp"

namespace um {

inline constexpr byte_count smallest_swapped = MiB;

// The paper's four scores. A candidate's total is their weighted sum, after each is standardized.
enum class swap_score : std::uint8_t { doa, aoa, wdoa, swdoa };
inline constexpr std::size_t swap_scores = 4;
using swap_weights = std::array<double, swap_scores>;

// The weights to try: each score alone, then 40 points that fill [-1, 1]^4 evenly (Halton 1960) in place of
// the paper's Bayesian optimisation, which is not repeatable.
std::vector<swap_weights> swap_weight_vectors();

// A block and the steps during which it could be off the device.
struct possible_absence {
  std::size_t from = 0, to = 0;  // steps [from, to), between two accesses
  byte_count bytes = 0;
  double copy_time = 0;  // of both copies, out and in
};

class swap_chooser {
 public:
  // `live_bytes`: bytes alive at each step without swaps. `starts`: time at which each step begins, and the
  // last ends.
  swap_chooser(std::vector<byte_count> live_bytes, std::vector<double> starts,
               std::vector<possible_absence> candidates);

  // The candidates to swap: in descending order of score until the peak is within the limit, or all.
  std::vector<std::size_t> choose(const swap_weights& w, byte_count limit) const;

 private:
  double area_of_absence(const possible_absence& a, const std::vector<double>& areas) const {
    return areas[a.to] - areas[a.from];
  }
  std::vector<double> area_prefix_sums(const std::vector<byte_count>& live_bytes) const;
  std::vector<double> unscaled_scores(swap_score s) const;
  std::vector<double> areas_after_removals() const;

  std::vector<byte_count> live_bytes_;
  std::vector<double> start_times_;
  std::vector<possible_absence> candidates_;
  std::array<std::vector<double>, swap_scores> scores_;
};

}  // namespace um
