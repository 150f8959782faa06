// Assigns addresses to lifetimes (offline dynamic storage allocation).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um {

// Bytes [offset, offset + bytes), held during the half-open interval [begin, end) of steps. A piece without
// bytes or steps is empty and conflicts with nothing.
struct piece {
  byte_count offset = 0, bytes = 0;
  std::uint32_t begin = 0, end = 0;
};

// Pieces at fixed offsets from one address, which the packer chooses, each with its own lifetime: the parts
// of a tensor that some operator uses as one. Pieces of one block are not checked against each other.
struct block {
  std::vector<piece> pieces;
  byte_count alignment = arena_alignment;
};

struct packing {
  std::vector<byte_count> offsets;  // one per block; 0 for a block that is empty
  byte_count bytes = 0;             // size of the arena: the end of its highest piece
  byte_count peak_live_bytes = 0;   // maximum of the bytes alive at one step: no packing is smaller
};

// A packing algorithm. Pieces of two blocks that are alive at the same time get disjoint addresses, and equal
// blocks give equal packings. Blocks whose pieces all live throughout are at the bottom. Ties: the block with
// the larger alignment comes first, then the earlier one.
struct packer {
  std::string_view name;
  packing (*pack)(std::span<const block> blocks) = nullptr;
  friend bool operator==(const packer& a, const packer& b) { return a.name == b.name; }
};

// Packs large blocks in several orders (largest first, largest bytes x steps first, longest-lived first) into
// the tightest or the lowest gap. A bounded search changes the orders while the arena exceeds the lower bound
// by more than 1 part in 500. Small blocks follow, each in the tightest gap. Returns the smallest arena.
packing pack_searched(std::span<const block> blocks);
// Pack as an allocator does, without a search: each block when it begins, by first fit into the lowest gap
// that is wide enough, by best fit into the tightest.
packing pack_first_fit(std::span<const block> blocks);
packing pack_best_fit(std::span<const block> blocks);
// SmartPool (Zhang et al., arXiv 1903.06631): largest first, equal ones in their order, each into the
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
