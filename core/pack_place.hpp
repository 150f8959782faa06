// Places blocks in a given order (core/pack_orders.cpp chooses the orders).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

using placing_order = std::vector<std::uint32_t>;  // indices of some or all of the task's blocks

// Numbers of small ranges of steps, in order, so that eight compare at once: blocks that share a step share
// one.
using step_range = std::int16_t;

// A packing of some or all of the blocks.
struct attempt {
  placing_order order;
  placing_order placed;                  // by address
  std::vector<step_range> begins, ends;  // of each placed block
  std::vector<std::int64_t> address_of;  // per block of the task that is placed
  byte_count bytes = 0;                  // size of the arena so far
  byte_count bytes_above_goal = 0;       // sum over blocks of the bytes above the goal
};

// Steps as bits, many steps a bit.
struct step_set {
  std::array<std::uint64_t, 4> bits{};
  bool meets(const step_set& other) const {
    std::uint64_t common = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) common |= bits[i] & other.bits[i];
    return common != 0;
  }
  void add(const step_set& other) {
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] |= other.bits[i];
  }
};

// Places blocks of a task, which must outlive it; its rule may change.
class block_placer {
 public:
  explicit block_placer(const placement_request& t);

  attempt place(placing_order order);
  // Places further blocks, each as if the order had begun with those that are placed, while the arena is
  // below `enough`.
  void place_too(attempt& a, const placing_order& order, byte_count enough);
  // To `a`, whose memory is reused: `before` with the block of its place `from` moved to the earlier place
  // `to`. False, and `a` is of no use, as soon as more than `most` bytes lie above the goal.
  bool place_earlier(const attempt& before, std::size_t from, std::size_t to, byte_count most, attempt& a);

 private:
  struct lifetime {
    step_range begin = 0, end = 0;
    step_set steps;
  };
  // A block that lies elsewhere than in the attempt before, or was not there at the time.
  struct change {
    std::uint32_t index = 0;
    std::int64_t was = 0, is = 0;  // addresses
  };

  void begin_as(const attempt& before, std::size_t kept, attempt& a);
  void insert(std::uint32_t i, std::int64_t at, attempt& a) const;
  void insert_at(std::size_t place, std::uint32_t i, std::int64_t at, attempt& a) const;
  // Whether a block that took the lowest gap takes the same in spite of the changes.
  bool keeps_lowest_gap(std::uint32_t i, std::int64_t at) const;
  std::int64_t end_of(std::uint32_t i, const attempt& a) const { return a.address_of[i] + extents_[i]; }
  // Visits the placed blocks that are live at the same time as block `i`, by address, until `visit` returns
  // false.
  void for_each_overlapping_in_time(std::uint32_t i, const attempt& a, const auto& visit) const;
  // The address of block `i` by the rule, given the placed blocks.
  std::int64_t address_for(std::uint32_t i, const attempt& a);
  // Address ranges that block `i` cannot take, in order: of blocks that it may not meet at all, and of
  // others.
  void find_forbidden_addresses(std::uint32_t i, const attempt& a);

  const placement_request& task_;
  const conflicts conflicts_;
  std::uint32_t steps_of_range_ = 1;
  std::vector<lifetime> lifetimes_;    // per block
  std::vector<std::int64_t> extents_;  // per block
  std::vector<char> is_kept_;          // per block
  std::vector<change> changes_;        // scratch of place_earlier()
  std::vector<offset_interval> forbidden_, forbidden_to_parts_;
};

}  // namespace um::placing
