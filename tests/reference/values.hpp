#pragma once

#include <vector>

namespace um::reference {

// A tensor's elements, outermost extent first (n, c, h, w). Labels and pooling indices are held
// as whole numbers.
using values = std::vector<double>;

}  // namespace um::reference
