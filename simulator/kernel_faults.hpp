// The faults that a kernel raises on managed memory, and how the driver services them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/access.hpp"
#include "simulator/driver_operation.hpp"

namespace um {

// How a kernel goes through a range.
//
// All threads of a sparse or shuffled touch are resident at once. They use resident data while misses wait,
// and migrated data as soon as it arrives. So each missing granule migrates once, whatever is evicted
// meanwhile: the best case. `hits_wait` is the worst case: no granule is used before its turn, and one that
// is evicted before its turn migrates again. Other touches go through the range by address, in turn.
struct touch_pattern {
  unsigned stride = 1;     // in granules, from the first one of the range
  bool dependent = false;  // a single thread makes dependent accesses: one granule a batch
  bool sparse = false;     // one page of each granule, by a thread of its own, by address; else every byte
  bool shuffled = false;   // granules of the whole range in random order
  bool hits_wait = false;  // in a sparse or shuffled touch, hits do not run ahead of misses
  friend bool operator==(const touch_pattern&, const touch_pattern&) = default;
};

// The GPU's access counters: accesses over the link, per granule.
class access_counters {
 public:
  access_counters(std::uint64_t blocks, std::uint64_t threshold);
  // Counts `bytes` of access to a granule. Returns true and resets the counter if it was full before.
  bool count(std::uint32_t block, unsigned granule, byte_count bytes);
  bool counts() const { return threshold_ > 0; }

 private:
  std::uint64_t threshold_;
  std::vector<std::uint32_t> access_counts_;
};

// One touch of one range by a kernel.
class kernel_faults {
 public:
  // References are kept. `busy`: the driver is not idle when the first fault arrives.
  kernel_faults(block_table& blocks, access_counters& counters, const driver_times& times, range r,
                access_mode mode, touch_pattern how, bool busy);
  managed_traffic run();

 private:
  struct fault {
    std::uint32_t block = 0;  // number of the block
    granule_set granules = 0;
  };

  void touch_by_address();
  bool touch_block(std::uint32_t id, granule_set needed);
  void touch_shuffled();
  granule_set& pending_in(std::uint32_t id) { return pending_[id - touched_blocks_.first]; }
  void find_pending();
  void complete_accesses(std::uint32_t id, granule_set granules);
  void add_to_batch(std::uint32_t id, granule_set granules);

  granule_set touched_in(std::uint32_t id) const;
  byte_count bytes_touched(std::uint32_t id, granule_set granules) const;

  void service_batch();
  void service(const fault& f);
  void service_discarded(const fault& f);
  void service_in_place(const fault& f);
  void write_read_mostly(const fault& f);
  void access_remote(std::uint32_t id, granule_set touched);
  granule_set often_accessed(std::uint32_t id, granule_set touched);

  block_table& blocks_;
  access_counters& counters_;
  driver_operation driver_;
  range range_;
  block_cover touched_blocks_;
  access_mode mode_;
  bool writes_;
  touch_pattern pattern_;
  bool driver_is_busy_;
  unsigned batch_limit_;              // granules
  std::vector<fault> batch_;          // collected, not serviced yet
  unsigned batch_granules_ = 0;       // granules in the batch
  std::vector<granule_set> pending_;  // per block: not used yet; for sparse and shuffled touches
};

}  // namespace um
