// Maximum-weight closure: the most valuable set of items that contains all items its members need.
#pragma once

#include <cstddef>
#include <vector>

namespace um {

// `gain`: of each item, negative for a cost; `needs`: items that each item requires. Picard's reduction to a
// minimum cut (Management Science 22, 1976).
std::vector<bool> best_closure(const std::vector<double>& gain,
                               const std::vector<std::vector<std::size_t>>& needs);

}  // namespace um
