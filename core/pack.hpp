// Gives lifetimes addresses (SmartPool's problem: dynamic storage allocation, offline).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um {

// `bytes` that must be held during the half-open interval [begin, end) of steps. Blocks whose
// intervals meet get disjoint addresses.
struct block {
  byte_count bytes = 0;
  std::uint32_t begin = 0, end = 0;
  byte_count alignment = arena_alignment;
};

// first_fit takes the lowest gap that is wide enough, best_fit the tightest one. Both try several
// orders of placing (largest first, largest bytes x steps first, longest-lived first), change them by
// a bounded search while the arena is larger than the lower bound, and keep the smallest arena; where
// that leaves it much larger, the other one has its turn. Equal blocks give equal packings.
enum class packer : std::uint8_t { first_fit, best_fit };

struct packing {
  std::vector<byte_count> offset;  // one per block
  byte_count bytes = 0;            // size of the arena
  byte_count peak_live = 0;        // largest sum of sizes live at one step: no packing is smaller
};

packing pack(std::span<const block> blocks, packer how);

std::string_view to_text(packer how);

}  // namespace um
