// Derived properties of the blocks of core/pack.hpp, and the relative addresses at which two blocks conflict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pack.hpp"

namespace um::placing {

// A block with derived properties that placing uses.
struct block_shape {
  std::vector<piece> pieces;  // sorted by offset, without empty ones
  byte_count extent = 0;      // end of the highest piece
  std::uint32_t begin = 0, end = 0;
  std::uint32_t last_begin = 0, first_end = 0;  // between them all pieces are live
  byte_count alignment = arena_alignment;
  bool is_single = false;  // one piece at offset 0
  bool is_solid = false;   // the pieces cover the extent without holes
};

block_shape shape_of(const block& b);

// Largest sum of sizes live at one step.
byte_count peak_live(std::span<const block_shape> blocks);

inline std::int64_t to_signed(byte_count bytes) {
  return static_cast<std::int64_t>(bytes);
}

// An interval (above, below) of address differences at which two blocks conflict.
struct offset_interval {
  std::int64_t above = 0, below = 0;  // bounds, both exclusive
};

// Whether each piece of one block is live with each piece of the other, so that their address ranges must be
// disjoint.
inline bool overlap_throughout(const block_shape& a, const block_shape& b) {
  return a.is_solid && b.is_solid && a.last_begin < b.first_end && b.last_begin < a.first_end;
}

// The relative addresses at which two blocks conflict, for all pairs of blocks that overlap in time only
// partly. Computed once and used for every order.
class forbidden_offset_table {
 public:
  explicit forbidden_offset_table(std::span<const block_shape> blocks);

  // Intervals of the address of block `i`, relative to that of `other`, at which the two conflict. Block `i`
  // has several pieces.
  std::span<const offset_interval> forbidden_offsets(std::size_t i, std::uint32_t other) const;

 private:
  struct conflicting_pair {
    std::uint32_t other = 0;
    std::uint32_t first_interval = 0;  // index of its first interval in intervals_
  };
  static constexpr std::uint32_t group_size = 16;  // number of blocks in a group
  std::vector<std::size_t> first_group_;           // per block with several pieces: index of its first group
  std::vector<std::uint32_t>
      first_pair_;  // per group of other blocks: index of the first pair with a block of the group
  std::vector<conflicting_pair> pairs_;     // with one entry past the last
  std::vector<offset_interval> intervals_;  // forbidden intervals of all pairs
};

}  // namespace um::placing
