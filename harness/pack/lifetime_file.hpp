// Lifetimes from an allocator's trace: a file of comma-separated values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pack.hpp"

namespace um {

struct traced_lifetime {
  std::string id;
  byte_count bytes = 0;
  std::uint64_t begin = 0, end = 0;     // held during [begin, end), in any unit of time
  std::vector<std::uint64_t> accesses;  // ascending, within [begin, end)
  friend bool operator==(const traced_lifetime&, const traced_lifetime&) = default;
};

// A line each: id, bytes, begin, end, then any access times in order, apart by commas or spaces. An id
// is any text without a comma and may come again. Skipped are empty lines, lines that begin with #,
// and a first line that names the columns ("id,..."). Throws input_error `source: line N: what is wrong`.
std::vector<traced_lifetime> lifetimes_from_csv(std::string_view text, std::string_view source);

// AutoSwap on lifetimes (planners/swap_scores.hpp): where more than `limit` bytes live at once, blocks of 1
// MiB and more leave between two neighbouring accesses before and after the peak.
struct swapped_lifetimes {
  std::vector<traced_lifetime>
      lifetimes;                  // one that leaves is two: up to the access before and from the one after
  std::size_t swapped_count = 0;  // number of lifetimes that leave
  byte_count bytes = 0;           // the bytes of those that leave; each is copied out once and back once
};
// Each different choice by the 44 weightings, that which moves least first; times have no unit, so that
// copies take none. None if nothing need or can leave.
std::vector<swapped_lifetimes> swap_to_limit(std::span<const traced_lifetime> all, byte_count limit);

// Returns one block per lifetime, with alignment 1. Times are replaced by their rank.
std::vector<block> blocks_of(std::span<const traced_lifetime> all);

}  // namespace um
