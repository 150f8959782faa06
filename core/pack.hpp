// Gives lifetimes addresses (offline dynamic storage allocation).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um {

// `bytes` bytes from `offset` on, held during the half-open interval [begin, end) of steps. Without bytes or
// steps it is empty and conflicts with nothing.
struct piece {
  byte_count offset = 0, bytes = 0;
  std::uint32_t begin = 0, end = 0;
};

// Pieces that lie at fixed offsets from one address, each with a life of its own: the parts of a
// tensor that some operator takes as one. The packer chooses that address. Pieces of one block are
// never checked against each other.
struct block {
  std::vector<piece> pieces;
  byte_count alignment = arena_alignment;  // the address is a multiple of it
};

struct packing {
  std::vector<byte_count> offset;  // one per block; 0 for a block that is empty
  byte_count bytes = 0;            // size of the arena: where the highest piece ends
  byte_count peak_live = 0;        // largest sum of sizes live at one step: no packing is smaller
};

// A packing algorithm. Pieces of two blocks that are live at once get disjoint addresses, and equal blocks
// give equal packings. Blocks all of whose pieces live from the first step to the last lie at the bottom.
// Ties: the block of larger alignment comes first, then the one given first.
struct packer {
  std::string_view name;
  packing (*place)(std::span<const block> blocks) = nullptr;
  friend bool operator==(const packer& a, const packer& b) { return a.name == b.name; }
};

// Places large blocks in several orders (largest first, largest bytes x steps first, longest-lived first), in
// the tightest or the lowest gap, and changes the orders by a bounded search while anything lies above the
// lower bound by more than 1 part in 500; then the small ones, each in the tightest gap. Keeps the smallest
// arena.
packing pack_searched(std::span<const block> blocks);
// One order, that in which blocks begin, as an allocator meets them; no search. The lowest gap that is
// wide enough, or the tightest one.
packing pack_first_fit(std::span<const block> blocks);
packing pack_best_fit(std::span<const block> blocks);
// SmartPool (Zhang et al., arXiv 1903.06631): largest first, among equals the earlier one, each in the
// tightest gap.
packing pack_smartpool(std::span<const block> blocks);

namespace packers {
inline constexpr packer searched{"searched", pack_searched};
inline constexpr packer first_fit{"first_fit", pack_first_fit};
inline constexpr packer best_fit{"best_fit", pack_best_fit};
inline constexpr packer smartpool{"smartpool", pack_smartpool};
}  // namespace packers

std::span<const packer> all_packers();
// nullptr if there is none of that name.
const packer* find_packer(std::string_view name);
constexpr std::string_view to_text(const packer& p) {
  return p.name;
}

}  // namespace um
