// AutoSwap's choice of what leaves (Zhang et al., arXiv 1903.06631): the same for a network's tensors and for
// lifetimes that another program's allocator gives.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/units.hpp"

namespace um {

inline constexpr byte_count smallest_swapped = MiB;

// The score that a candidate is taken by: a sum of four, each standardized.
enum class swap_score : std::uint8_t { doa, aoa, wdoa, swdoa };
inline constexpr std::size_t swap_scores = 4;
using swap_weights = std::array<double, swap_scores>;

// Each score alone, then 40 points of [-1, 1]^4 that fill it evenly (Halton 1960): they stand for the paper's
// Bayesian optimisation, which is not repeatable.
std::vector<swap_weights> swap_weight_vectors();

// A block between two accesses, without it during steps [from, to).
struct absence {
  std::size_t from = 0, to = 0;
  byte_count bytes = 0;
  double copies = 0;  // the time of both
};

class swap_chooser {
 public:
  // `load`: bytes alive at each step if all stays; `starts`: the time at which each begins, and the last
  // ends.
  swap_chooser(std::vector<byte_count> load, std::vector<double> starts, std::vector<absence> candidates);

  // The candidates that leave, by descending score until the load keeps within the limit, or all.
  std::vector<std::size_t> choose(const swap_weights& w, byte_count limit) const;

 private:
  double area(const absence& a, const std::vector<double>& areas) const {
    return areas[a.to] - areas[a.from];
  }
  std::vector<double> areas_under(const std::vector<byte_count>& load) const;
  std::vector<double> values_of(swap_score s) const;
  std::vector<double> areas_one_by_one() const;

  std::vector<byte_count> load_;
  std::vector<double> starts_;
  std::vector<absence> candidates_;
  std::array<std::vector<double>, swap_scores> score_;
};

}  // namespace um
