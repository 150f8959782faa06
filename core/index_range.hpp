// Consecutive operators or steps.
#pragma once

#include <cstdint>

namespace um {

// Indices first to last, both included.
struct index_range {
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const index_range&, const index_range&) = default;
};

}  // namespace um
