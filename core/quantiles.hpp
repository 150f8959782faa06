// Medians and other quantiles.
#pragma once

#include <algorithm>
#include <vector>

#include "core/units.hpp"

namespace um {

// The median of at least one value; for an even number of values, the mean of the middle two.
inline double median_of(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  if (all.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(all.begin(), middle)) / 2;
}

// The median of all times but the first; if there is only one, that one.
inline double steady_time(const std::vector<nanoseconds>& times) {
  return median_of({times.begin() + (times.size() > 1 ? 1 : 0), times.end()});
}

// The quantile of at least one value, given in ascending order. Interpolates between two values, as NumPy
// does.
inline double quantile_of(const auto& sorted, double share) {
  const double place = static_cast<double>(sorted.size() - 1) * share;
  const auto below = static_cast<std::size_t>(place);
  const auto low = static_cast<double>(sorted[below]);
  const auto high = static_cast<double>(sorted[std::min(below + 1, sorted.size() - 1)]);
  return low + (place - static_cast<double>(below)) * (high - low);
}

}  // namespace um
