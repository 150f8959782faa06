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
  std::uint64_t begin = 0, end = 0;     // alive during [begin, end), in any unit of time
  std::vector<std::uint64_t> accesses;  // ascending, within [begin, end)
  friend bool operator==(const traced_lifetime&, const traced_lifetime&) = default;
};

// Each line has id, bytes, begin, end, then the access times in order, separated by commas or spaces. An id
// is any text without a comma and need not be unique. Empty lines, lines that begin with # and a first line
// with the names of the columns ("id,...") are skipped. Throws input_error `source: line N: what is wrong`.
std::vector<traced_lifetime> lifetimes_from_csv(std::string_view text, std::string_view source);

// The result of AutoSwap on lifetimes (planners/swap_scores.hpp): if more than `limit` bytes are alive at the
// peak, blocks of 1 MiB and more are swapped out between the last access before and the first access after
// the peak.
struct swapped_lifetimes {
  // A swapped lifetime becomes two: until the access before its absence, and from the access after it.
  std::vector<traced_lifetime> lifetimes;
  std::size_t swapped_count = 0;  // number of lifetimes that are swapped out
  byte_count bytes = 0;           // sum of the swapped bytes; each is copied out once and back once
};
// The distinct choices by the 44 weightings of AutoSwap, those with the fewest bytes first. Times have no
// unit, so copies are taken to last no time. Empty if nothing needs to or can be swapped.
std::vector<swapped_lifetimes> swap_to_limit(std::span<const traced_lifetime> all, byte_count limit);

// Returns one block per lifetime, with alignment 1. Times are replaced by their rank.
std::vector<block> blocks_of(std::span<const traced_lifetime> all);

}  // namespace um
