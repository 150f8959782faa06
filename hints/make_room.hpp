// Inserts evictions that keep a plan within its budget.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/managed_map.hpp"
#include "core/residency.hpp"
#include "hints/parts.hpp"
#include "hints/rules.hpp"

namespace um {

// Victim selection: which parts of managed tensors are evicted when a compute needs room.

// How to evict. The defaults imitate the driver, for mode `capped`.
struct eviction_options {
  evict_order order = evict_order::driver;
  std::int64_t min_gap = 0;  // for evict_order::not_soon: minimum number of computes until the next use
  byte_count part_bytes = 64 * MiB;  // tensors are evicted in parts of about that size
  byte_count reserve_bytes = 0;      // part of the budget kept free for early prefetches
  bool prefetch_inputs = false;      // a compute's inputs are prefetched, not faulted in; twinned ones always
  bool populate_outputs = false;     // outputs are populated before the compute that first writes them
  std::vector<bool> is_evictable;    // per tensor: whether it may be evicted; empty: all may
  std::vector<bool>
      is_discarded;  // per tensor: whether it is discarded when dead instead of evicted; empty: none is
};

// A set of blocks that is cleared in constant time.
class block_set {
 public:
  explicit block_set(std::size_t blocks) : added_in_round_(blocks, 0) {}
  void clear();
  void add(const range& r);
  bool contains(std::size_t b) const { return added_in_round_[b] == round_; }
  const std::vector<std::size_t>& members() const { return members_; }

 private:
  std::vector<std::uint64_t> added_in_round_;
  std::uint64_t round_ = 1;  // number of the current set; clear() begins the next
  std::vector<std::size_t> members_;
};

// Rank of a part in the order of eviction: first parts that are not used again, then those that the rules
// allow to leave, last all others and those that are needed soon. Within a kind, a smaller `order` comes
// first.
struct eviction_rank {
  enum class rank_kind : std::uint8_t { dead, may_leave, last_resort };
  rank_kind kind = rank_kind::dead;
  std::uint64_t order = 0;  // within the kind: lower ones are evicted first
  friend auto operator<=>(const eviction_rank&, const eviction_rank&) = default;
};

// Ranks parts for eviction and makes the actions that evict them. Keeps references.
class victim_order {
 public:
  victim_order(const graph& g, const eviction_options& rules, position end)
      : graph_(g), options_(rules), iteration_end_(end) {}

  // Rank before the compute at `now`. `first_arrival`: clock value when its oldest block became resident.
  eviction_rank rank_of(const evictable_part& x, position now, std::uint64_t first_arrival) const;
  action eviction_of(const evictable_part& x, position now) const;

 private:
  bool is_discarded(const evictable_part& x) const {
    return !options_.is_discarded.empty() && options_.is_discarded[x.tensor];
  }
  position next_use(const evictable_part& x, position now) const;

  const graph& graph_;
  const eviction_options& options_;
  position iteration_end_;  // number of computes in an iteration
};

// Tracks which parts are resident while actions are applied, and chooses victims for a compute. Keeps
// references.
class resident_parts {
 public:
  resident_parts(const graph& g, const memory_plan& draft, const placement& at, const evictable_parts& parts,
                 const eviction_options& rules);

  const block_ledger& ledger() const { return ledger_; }
  void begin_iteration() { ledger_.begin_iteration(); }
  // `a`: an action before the compute at `now`, or that compute.
  void apply(const action& a, position now);
  bool is_resident(const evictable_part& x) const;

  // Number of blocks in use once `wanted` is resident.
  std::uint64_t resident_blocks_with(const block_set& wanted) const;
  // Parts outside `spared` to evict, in order, so that at most `most` blocks are then in use, or at least at
  // most `limit`; nothing if that is impossible.
  std::optional<std::vector<std::size_t>> choose_victims(position now, const block_set& wanted,
                                                         const block_set& spared, std::uint64_t most,
                                                         std::uint64_t limit);
  action eviction_of(const evictable_part& x, position now) const { return order_.eviction_of(x, now); }

 private:
  struct candidate {
    eviction_rank rank;
    std::size_t first_block = 0, part = 0;  // its first block that is not spared, index of the part
    std::uint64_t freed_blocks = 0;         // number of blocks that evicting it frees
  };

  void record_arrival(tensor_id t, std::span<const range> ranges, bool also_if_resident);
  void for_each_owned_block(const evictable_part& x, const auto& use_block) const;
  std::vector<candidate> find_candidates(position now, const block_set& wanted, const block_set& spared);

  const memory_plan& draft_;
  const placement& placement_;
  const evictable_parts& parts_;
  block_ledger ledger_;
  victim_order order_;
  std::vector<std::uint64_t> last_arrival_;  // per block: clock value when it became resident
  std::vector<bool> may_be_resident_;        // per part: false if none of it is on the device
  std::uint64_t clock_ = 0;                  // counts actions
};

// Packs a draft. None of its twinned tensors may have a prefetch yet.
placement placement_of_draft(const problem& p, const memory_plan& draft, packer arena_packer);

// Inserts evictions into a plan so that the device arena and all resident managed blocks stay within the
// budget, counted as lower() does (core/residency.hpp).
//
// Parts are evicted in the order of `options`. The driver's order is least recently migrated or populated
// (hits of kernels do not count: uvm_pmm_gpu.c, pick_root_chunk_to_evict); the driver evicts 2 MiB chunks,
// the plan parts of tensors. Tensors that may not be evicted go last, twinned tensors that persist also at
// the end of the iteration. The operands of the next compute, and those with a pending prefetch, stay. A
// prefetch without room is dropped: its data then comes on demand. `at` is the draft's placement.
//
// Throws infeasible, naming the operator, if one compute's operands exceed the budget.
memory_plan make_room(const problem& p, const memory_plan& draft, const placement& at,
                      const eviction_options& rules);

}  // namespace um
