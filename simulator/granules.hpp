// Sets of granules of one block as bits, and the driver's tree prefetcher for them.
#pragma once

#include <bit>
#include <cstdint>

#include "core/units.hpp"

namespace um {

inline constexpr byte_count granule_bytes = 64 * KiB;
inline constexpr byte_count page_bytes = 4 * KiB;
inline constexpr unsigned granules_per_block = 32;
inline constexpr unsigned pages_per_granule = 16;
static_assert(granule_bytes * granules_per_block == managed_block);

// Granule i of a block is bit i.
using granule_set = std::uint32_t;
inline constexpr granule_set all_granules = ~granule_set{0};

constexpr unsigned count(granule_set s) {
  return static_cast<unsigned>(std::popcount(s));
}

// Number of contiguous runs in the set.
constexpr unsigned runs_in(granule_set s) {
  return count(s & ~(s << 1));
}

// The first n granules of the set, by address.
constexpr granule_set first_granules_of(granule_set s, unsigned n) {
  granule_set taken = 0;
  for (; n > 0 && s != 0; --n) {
    taken |= s & (~s + 1);
    s &= s - 1;
  }
  return taken;
}

// The granules [begin, end).
constexpr granule_set granules_between(unsigned begin, unsigned end) {
  if (begin >= end) return 0;
  return (all_granules >> (granules_per_block - (end - begin))) << begin;
}

// The granules that one service makes resident: each one asked for, with the largest aligned power-of-two
// group around it of which more than 51 % are resident or asked for [uvm_perf_prefetch.c,
// uvm_perf_prefetch_threshold].
constexpr granule_set with_prefetched_granules(granule_set resident, granule_set asked) {
  const granule_set occupied = resident | asked;
  granule_set result = asked;
  for (unsigned size = 2; size <= granules_per_block; size *= 2) {
    const granule_set first = all_granules >> (granules_per_block - size);
    for (unsigned at = 0; at < granules_per_block; at += size) {
      const granule_set group = first << at;
      if ((asked & group) != 0 && count(occupied & group) * 100 > size * 51) result |= group;
    }
  }
  return result;
}

}  // namespace um
