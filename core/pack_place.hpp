// Places blocks in a given order (core/pack_orders.cpp chooses the orders).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/pack_shapes.hpp"

namespace um::placing {

// The gap that a block takes: the first that is wide enough, or the one that it fills best.
enum class gap_rule : std::uint8_t { lowest_gap, tightest_gap };

// The blocks to place, the lowest address and the rule.
struct placement_request {
  std::vector<block_shape> blocks;
  byte_count floor = 0;  // lowest address
  byte_count goal = 0;   // no block should reach above it
  gap_rule rule = gap_rule::tightest_gap;
  bool has_only_single_blocks = true;  // each block has one piece, at offset 0
};

using placing_order = std::vector<std::uint32_t>;  // indices of some or all blocks of the request

// Index of a small range of steps. 16 bits, so that several compare at once. Blocks that share a step share a
// range.
using step_range = std::int16_t;

// A packing of some or all of the blocks.
struct partial_packing {
  placing_order order;
  placing_order placed;                  // placed blocks in order of their addresses
  std::vector<step_range> begins, ends;  // lifetime of each placed block
  std::vector<std::int64_t> address_of;  // per block of the request; valid for placed ones
  byte_count bytes = 0;                  // size of the arena so far
  byte_count bytes_above_goal = 0;       // sum over blocks of the bytes above the goal
};

// A set of steps. One bit stands for several steps.
struct step_set {
  std::array<std::uint64_t, 4> bits{};
  bool intersects(const step_set& other) const {
    std::uint64_t common = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) common |= bits[i] & other.bits[i];
    return common != 0;
  }
  void add(const step_set& other) {
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] |= other.bits[i];
  }
};

// Places the blocks of a request, which must outlive it. The request's rule may change between calls.
class block_placer {
 public:
  explicit block_placer(const placement_request& t);

  partial_packing place(placing_order order);
  // Adds further blocks to a packing, in order. Gives up, with blocks missing, once the arena has
  // `give_up_bytes`.
  void place_until(partial_packing& a, const placing_order& order, byte_count give_up_bytes);
  // Sets `a` (reusing its memory) to `before` with the block at `old_place` in the order moved to the earlier
  // `new_place`. Returns false as soon as more than `max_above_goal` bytes lie above the goal. Of `a`, only
  // these bytes are then valid.
  bool place_earlier(const partial_packing& before, std::size_t old_place, std::size_t new_place,
                     byte_count max_above_goal, partial_packing& a);

 private:
  struct lifetime {
    step_range begin = 0, end = 0;
    step_set steps;
  };
  // The steps at which all pieces of a block without holes live; none if it has holes.
  struct full_steps {
    std::uint32_t begin = std::numeric_limits<std::uint32_t>::max(), end = 0;  // steps [begin, end)
  };
  // A block whose address differs from that in the previous packing, or that was not placed there.
  struct block_move {
    std::uint32_t index = 0;
    std::int64_t old_address = 0, new_address = 0;
  };

  void copy_first_placed(const partial_packing& before, std::size_t count, partial_packing& a);
  void insert(std::uint32_t i, std::int64_t at, partial_packing& a) const;
  void insert_at(std::size_t place, std::uint32_t i, std::int64_t at, partial_packing& a) const;
  // Whether block `i` would take the same gap as before block_moves_. False if the rule is not lowest_gap.
  bool would_take_same_gap(std::uint32_t i, std::int64_t old_address) const;
  std::int64_t end_of(std::uint32_t i, const partial_packing& a) const {
    return a.address_of[i] + extents_[i];
  }
  // Visits the placed blocks that are live at the same time as block `i`, by address, until `visit` returns
  // false.
  void for_each_overlapping_in_time(std::uint32_t i, const partial_packing& a, const auto& visit) const;
  // The address that the rule gives block `i` beside the placed blocks.
  std::int64_t address_for(std::uint32_t i, const partial_packing& a);
  // Finds the address ranges that block `i` cannot take, in order: those of blocks that are live with all of
  // it, and those of blocks that are live with parts of it.
  void find_forbidden_addresses(std::uint32_t i, const partial_packing& a);

  const placement_request& request_;
  const forbidden_offset_table forbidden_offsets_;
  std::uint32_t steps_per_range_ = 1;
  std::vector<lifetime> lifetimes_;                              // per block
  std::vector<full_steps> full_steps_;                           // per block
  std::vector<std::int64_t> extents_;                            // per block
  std::vector<char> is_kept_;                                    // per block
  std::vector<block_move> block_moves_;                          // scratch of place_earlier()
  std::vector<offset_interval> forbidden_, forbidden_to_parts_;  // results of find_forbidden_addresses()
};

}  // namespace um::placing
