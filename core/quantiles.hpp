// The median.
#pragma once

#include <algorithm>
#include <vector>

namespace um {

// `all` is not empty. Of an even number of values, the mean of the two in the middle.
inline double median_of(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  if (all.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(all.begin(), middle)) / 2;
}

}  // namespace um
