// Victim selection: which parts of managed tensors give way when a compute needs room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/residency.hpp"
#include "hints/parts.hpp"
#include "hints/rules.hpp"

namespace um {

// As it stands: the driver's own way, for mode `capped`.
struct room_rules {
  evict_order order = evict_order::driver;
  std::int64_t gap = 0;              // not_soon: least number of computes until the next use
  byte_count part_bytes = 64 * MiB;  // tensors are evicted in parts of about that size
  byte_count reserve_bytes = 0;      // part of the budget kept free for early prefetches
  bool fetch = false;                // inputs of a compute are prefetched, not brought in by faults;
                                     // twinned tensors always are
  bool populate = false;             // outputs get their memory before the compute that first writes them
  std::vector<bool> leaves;          // per tensor: may be evicted; empty: all may
  std::vector<bool> discards;        // per tensor: discarded when dead, not evicted; empty: none
};

// A set of blocks that is emptied often.
class block_set {
 public:
  explicit block_set(std::size_t blocks) : stamp_(blocks, 0) {}
  void clear();
  void add(const range& r);
  bool has(std::size_t b) const { return stamp_[b] == now_; }
  const std::vector<std::size_t>& members() const { return members_; }

 private:
  std::vector<std::uint64_t> stamp_;
  std::uint64_t now_ = 1;
  std::vector<std::size_t> members_;
};

// Order of eviction: dead parts first, then those that may leave, then the last resort; within a kind the
// smaller `order` first.
struct urgency {
  enum class kind : std::uint8_t { dead, may_leave, last_resort };
  kind what = kind::dead;
  std::uint64_t order = 0;
  friend auto operator<=>(const urgency&, const urgency&) = default;
};

// The order in which parts are evicted, and the action that evicts each. Keeps the references.
class victim_order {
 public:
  victim_order(const graph& g, const room_rules& rules, position end) : g_(g), rules_(rules), end_(end) {}

  // Before the compute at `now`. `came_in`: a clock's time when the oldest block of it last did.
  urgency urgency_of(const leaving_part& x, position now, std::uint64_t came_in) const;
  action departure(const leaving_part& x, position now) const;

 private:
  bool is_discarded(const leaving_part& x) const;
  position next_use(const leaving_part& x, position now) const;

  const graph& g_;
  const room_rules& rules_;
  position end_;  // end of an iteration
};

// What is resident while actions are applied, part by part, and whom of it a compute drives out. Keeps the
// references.
class resident_parts {
 public:
  resident_parts(const graph& g, const memory_plan& draft, const placement& at, const leaving_parts& parts,
                 const room_rules& rules);

  const block_ledger& ledger() const { return ledger_; }
  void begin_iteration() { ledger_.begin_iteration(); }
  // Before the compute at `now`, or that compute.
  void apply(const action& a, position now);
  bool is_here(const leaving_part& x) const;

  // Blocks in use once `wanted` is there.
  std::uint64_t count_with(const block_set& wanted) const;
  // Parts outside `spared` to give up, in their order, so that no more than `most` blocks are in use then, or
  // at least no more than `limit`; nothing if that cannot be.
  std::optional<std::vector<std::size_t>> victims(position now, const block_set& wanted,
                                                  const block_set& spared, std::uint64_t most,
                                                  std::uint64_t limit);
  action departure(const leaving_part& x, position now) const { return order_.departure(x, now); }

 private:
  struct victim {
    urgency how;
    std::size_t block = 0, part = 0;  // its first block that may go
    std::uint64_t gain = 0;           // number of blocks that it would free
  };

  void note_arrival(tensor_id t, std::span<const range> what, bool anew);
  void for_owned(const leaving_part& x, const auto& what) const;
  std::vector<victim> candidates(position now, const block_set& wanted, const block_set& spared);

  const memory_plan& draft_;
  const placement& placement_;
  const leaving_parts& parts_;
  block_ledger ledger_;
  victim_order order_;
  std::vector<std::uint64_t> last_arrival_;  // per block: value of the clock then
  std::vector<bool> may_be_resident_;        // per part: false if nothing of it is on the device
  std::uint64_t clock_ = 0;
};

}  // namespace um
