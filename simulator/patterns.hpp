// Access patterns that microbenchmarks measure, simulated from a machine's figures. Most
// are on an arena that fits; others have a ratio of data to room, or of data to what of it is on the device
// already.
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
  std::string_view name, what;
  pattern_result (*simulate)(const machine& on);
  pattern_result (*at_ratio)(const machine& on, double ratio) = nullptr;  // nullptr: the pattern has no ratio
  // The same in the worst order of accesses that the hardware may choose; nullptr: the order is known.
  pattern_result (*in_turn)(const machine& on, double ratio) = nullptr;
};

std::span<const pattern> patterns();
// nullptr if there is no such row.
const pattern* find_pattern(std::string_view name);

// Bytes a second; 0 for a latency.
double rate_of(const pattern_result& r);

}  // namespace um
