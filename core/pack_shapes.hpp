// Blocks prepared for placing (core/pack.hpp), and the relative addresses at which two of them conflict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pack.hpp"

namespace um::placing {

// A block with what placing asks for.
struct shape {
  std::vector<piece> pieces;  // by offset, empty ones left out
  byte_count extent = 0;      // where the highest one ends
  std::uint32_t begin = 0, end = 0;
  std::uint32_t last_begin = 0, first_end = 0;
  byte_count alignment = arena_alignment;
  bool is_single = false;  // one piece at offset 0
  bool is_solid = false;   // no byte of the extent belongs to no piece
};

shape shape_of(const block& b);

// Largest sum of sizes live at one step.
byte_count peak_live(std::span<const shape> blocks);

inline std::int64_t signed_of(byte_count bytes) {
  return static_cast<std::int64_t>(bytes);
}

// A block conflicts with another one at relative addresses in (above, below).
struct taken {
  std::int64_t above = 0, below = 0;
};

// Whether each piece of the one meets each of the other in time, so that neither lies within the other.
inline bool meet_whole(const shape& a, const shape& b) {
  return a.is_solid && b.is_solid && a.last_begin < b.first_end && b.last_begin < a.first_end;
}

// Conflicts of all pairs that overlap in time only partly; computed once, used by every order.
class conflicts {
 public:
  explicit conflicts(std::span<const shape> blocks);

  // Of block `i`, which has several pieces, with `other`.
  std::span<const taken> of(std::size_t i, std::uint32_t other) const;

 private:
  struct pair {
    std::uint32_t other = 0;
    std::size_t first = 0;  // where what it cannot have begins in all_
  };
  std::vector<std::size_t> row_;  // where the pairs of a block begin, and one past the last
  std::vector<pair> pairs_;       // and one past the last
  std::vector<taken> all_;
};

}  // namespace um::placing
