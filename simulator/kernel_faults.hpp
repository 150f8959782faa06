// How the driver answers what a kernel touches of managed memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/access.hpp"
#include "simulator/driver_operation.hpp"

namespace um {

// How a kernel goes through a range.
//
// All threads of a sparse or shuffled touch live at once. What is on the device at the beginning is used
// while the misses wait, and what a service brings is used at once. So each missing granule comes once,
// whatever is evicted meanwhile, and only what is over the capacity has to come. That is the kindest order:
// hits run ahead as far as they can. `in_turn` is the unkindest: nothing is used before its turn, and what is
// evicted before it has to come again. Other touches go through the range by address, in turn.
struct touch_pattern {
  unsigned stride = 1;      // in granules, from the first one of the range
  bool one_by_one = false;  // a single thread of dependent accesses: one granule a batch
  bool sparse = false;      // one page of each granule, by a thread of its own, by address; else every byte
  bool shuffled = false;    // granules of the whole range in random order
  bool in_turn = false;     // of a sparse or shuffled touch: hits do not run ahead
  friend bool operator==(const touch_pattern&, const touch_pattern&) = default;
};

// The GPU's counters of accesses over the link, one a granule, where the machine counts them.
class access_counters {
 public:
  access_counters(std::uint64_t blocks, std::uint64_t threshold);
  // Counts `bytes` of access to a granule. True, and counting starts anew, if its counter was full before.
  bool count(std::uint32_t block, unsigned granule, byte_count bytes);
  bool counts() const { return threshold_ > 0; }

 private:
  std::uint64_t threshold_;
  std::vector<std::uint32_t> seen_;
};

// One touch of one range by a kernel.
class kernel_faults {
 public:
  // References are kept. `busy`: the driver is not idle when the first fault arrives.
  kernel_faults(block_table& blocks, access_counters& counters, const driver_prices& prices, range r,
                access_mode mode, touch_pattern how, bool busy);
  managed_traffic run();

 private:
  struct fault {
    std::uint32_t block = 0;
    granule_set granules = 0;
  };

  void touch_by_address();
  bool touch_block(std::uint32_t id, granule_set needed);
  void touch_shuffled();
  granule_set& left_in(std::uint32_t id) { return left_[id - cover_.first]; }
  void find_left();
  void use_arrived(std::uint32_t id, granule_set granules);
  void ask(std::uint32_t id, granule_set granules);

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
  block_cover cover_;
  access_mode mode_;
  bool writes_;
  touch_pattern how_;
  bool busy_;
  unsigned batch_limit_;           // granules
  std::vector<fault> batch_;       // collected, not serviced yet
  unsigned collected_ = 0;         // granules of it
  std::vector<granule_set> left_;  // per block: not used yet; of touches whose threads live at once
};

}  // namespace um
