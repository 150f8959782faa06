// Maximum-weight closure: the most valuable set of items that contains all items its members need.
#pragma once

#include <cstddef>
#include <vector>

namespace um {

// `gain`: of each item, negative for a cost; `needs`: per item, the items that it requires. Returns whether
// each item belongs to the closure. Uses Picard's reduction to a minimum cut (Management Science 22, 1976).
std::vector<bool> max_weight_closure(const std::vector<double>& gain,
                                     const std::vector<std::vector<std::size_t>>& needs);

}  // namespace um
