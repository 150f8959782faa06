// The access patterns of microbenchmarks, simulated from a machine's figures. Most use an arena that fits on
// the device. Others have a ratio: of data to device memory, or of data to the part that is already there.
#pragma once

#include <span>
#include <string_view>

#include "simulator/managed_memory.hpp"

namespace um {

struct pattern_result {
  byte_count bytes = 0;  // bytes that the kernel or the call asks for; 0: the pattern measures a latency
  managed_traffic traffic;
};

struct pattern {
  std::string_view name, summary;
  pattern_result (*simulate)(const machine& on);
  pattern_result (*at_ratio)(const machine& on,
                             double ratio) = nullptr;  // the pattern at a ratio; nullptr: it has no ratio
  // The same in the worst order of accesses that the hardware may choose; nullptr: the order is known.
  pattern_result (*worst_order)(const machine& on, double ratio) = nullptr;
};

std::span<const pattern> patterns();
// The pattern of that name; nullptr if there is none.
const pattern* find_pattern(std::string_view name);

// Bytes per second; 0 for a latency.
double rate_of(const pattern_result& r);

}  // namespace um
