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

// A unit of packing: pieces at fixed offsets from one address, which the packer chooses. Each piece has its
// own lifetime. Pieces are the parts of a tensor that some operator uses together; pieces of one block are
// not checked against each other.
struct block {
  std::vector<piece> pieces;
  byte_count alignment = arena_alignment;
};

struct packing {
  std::vector<byte_count> offsets;  // one per block; 0 for a block that is empty
  byte_count bytes = 0;             // size of the arena: the end of its highest piece
  byte_count peak_live_bytes = 0;   // maximum of the bytes alive at one step: a lower bound on every packing
};

// A packing algorithm. Pieces of different blocks that are alive at the same time get disjoint addresses, and
// equal blocks give equal packings. Blocks whose pieces all live throughout are placed at the bottom. Ties:
// the block with the larger alignment comes first, then the earlier one.
struct packer {
  std::string_view name;
  packing (*pack)(std::span<const block> blocks) = nullptr;
  friend bool operator==(const packer& a, const packer& b) { return a.name == b.name; }
};

// Places large blocks in several orders (largest first, largest bytes x steps first, longest-lived first)
// into the tightest or the lowest gap. A bounded search changes the orders while the arena exceeds the lower
// bound by more than 1 part in 500. Small blocks follow, each in the tightest gap. Returns the smallest
// arena.
packing pack_searched(std::span<const block> blocks);
// Pack as an online allocator does, without a search: each block in order of its begin, by first fit into the
// lowest gap that is wide enough, or by best fit into the tightest one.
packing pack_first_fit(std::span<const block> blocks);
packing pack_best_fit(std::span<const block> blocks);
// SmartPool (Zhang et al., arXiv 1903.06631): blocks in falling order of size, each into the tightest gap.
packing pack_smartpool(std::span<const block> blocks);

namespace packers {
inline constexpr packer searched{"searched", pack_searched};
inline constexpr packer first_fit{"first_fit", pack_first_fit};
inline constexpr packer best_fit{"best_fit", pack_best_fit};
inline constexpr packer smartpool{"smartpool", pack_smartpool};
}  // namespace packers

std::span<const packer> all_packers();
// The packer of that name; nullptr if there is none.
const packer* find_packer(std::string_view name);
constexpr std::string_view to_text(const packer& p) {
  return p.name;
}

}  // namespace um
