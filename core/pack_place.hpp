// Places blocks in a given order (core/pack_orders.cpp chooses the orders).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/pack_shapes.hpp"

namespace um::placing {

// The gap that a block takes: the first that is wide enough, or the one that it fills best.
enum class gap_rule : std::uint8_t { lowest_gap, tightest_gap };

// The blocks to place, the lowest address and the rule.
struct placement_request {
  std::vector<shape> blocks;
  byte_count floor = 0;  // lowest address
  byte_count goal = 0;   // no block should reach above it
  gap_rule rule = gap_rule::tightest_gap;
  bool has_only_single_blocks = true;  // each block has one piece, at offset 0
};

struct placed_block {
  std::int64_t begin = 0, end = 0;  // addresses
  std::uint32_t index = 0;          // index of the block in the task
};

// A packing of some or all of the blocks.
struct attempt {
  std::vector<std::size_t> order;           // indices of some or all of the task's blocks
  std::vector<placed_block> placed;         // by address
  std::vector<std::uint32_t> begins, ends;  // first and last step of each placed block, for fast comparison
  byte_count bytes = 0;                     // size of the arena so far
  byte_count bytes_above_goal = 0;          // sum over blocks of the bytes above the goal

  void insert(std::size_t at, const placed_block& s, const shape& b) {
    const auto after = static_cast<std::ptrdiff_t>(at);
    placed.insert(placed.begin() + after, s);
    begins.insert(begins.begin() + after, b.begin);
    ends.insert(ends.begin() + after, b.end);
  }
};

// Places blocks of a task, which must outlive it; its rule may change.
class block_placer {
 public:
  explicit block_placer(const placement_request& t)
      : task_(t), conflicts_(t.blocks), is_kept_(t.blocks.size()), overlapping_(t.blocks.size() + 1) {}

  // Returns nothing as soon as more than `most` bytes lie above the goal.
  std::optional<attempt> place(std::vector<std::size_t> order, byte_count most);
  // The same for an order that shares its first `kept` blocks with `before`.
  std::optional<attempt> place(std::vector<std::size_t> order, byte_count most, const attempt& before,
                               std::size_t kept);

 private:
  std::optional<attempt> place_rest(std::size_t kept, attempt&& a, byte_count most);
  attempt empty_attempt(std::vector<std::size_t> order) const;
  void add_extent(const placed_block& s, attempt& a) const;
  // Indices of the placed blocks that are live at the same time as `b`. Compares eight at once.
  std::span<const std::uint32_t> overlapping_in_time(const shape& b, const attempt& a);
  // The address of block `i` by the rule, given the placed blocks.
  std::int64_t address_for(std::size_t i, const attempt& a);
  // Address ranges that block `i` cannot take, in order.
  void find_forbidden_addresses(std::size_t i, const attempt& a);

  const placement_request& task_;
  const conflicts conflicts_;
  std::vector<char> is_kept_;                  // per block
  std::vector<unsigned char> is_overlapping_;  // scratch: per placed block
  std::vector<std::uint32_t> overlapping_;
  std::vector<offset_interval> forbidden_;
};

}  // namespace um::placing
