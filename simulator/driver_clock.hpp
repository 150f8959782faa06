// The time of one operation of the driver: its own work on a CPU, while copies that it has issued run on one
// copy engine per direction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/machine.hpp"
#include "simulator/granules.hpp"

namespace um {

// Times that depend only on the machine.
class driver_prices {
 public:
  // Throws std::invalid_argument, naming the machine and the rate, if one is missing or so low that
  // the clock could overflow.
  explicit driver_prices(const machine& on);

  const uvm_costs& of() const { return costs_; }
  // A copy of that many granules of a block, in however many runs: CUPTI shows two for each granule that
  // a fault asks for, which the copy engine takes as fast as one.
  nanoseconds to_device(unsigned granules) const { return to_device_[granules] + overhead(granules); }
  nanoseconds to_host(unsigned granules) const { return to_host_[granules] + overhead(granules); }
  nanoseconds zero(unsigned granules) const { return zero_[granules]; }
  nanoseconds link_both(byte_count bytes) const;
  nanoseconds remote_read(byte_count bytes) const;
  nanoseconds remote_write(byte_count bytes) const;

 private:
  nanoseconds overhead(unsigned granules) const {
    const nanoseconds pages =
        costs_.host_chunk_bytes == managed_block ? 0 : costs_.page_copy_ns * pages_per_granule * granules;
    return costs_.migrate_copy_ns + pages;
  }

  machine on_;
  uvm_costs costs_;
  std::array<nanoseconds, granules_per_block + 1> to_device_{}, to_host_{}, zero_{};
};

class driver_clock {
 public:
  explicit driver_clock(const driver_prices& prices) : prices_(&prices) {}

  void work(nanoseconds time) { cpu_ += time; }
  // Waits for room in device memory that an eviction is still clearing.
  void copy_to_device(granule_set what) {
    const nanoseconds begin = std::max({cpu_, in_, room_});
    in_ = begin + prices_->to_device(count(what));
    moved_in_ += count(what) * granule_bytes;
  }
  void copy_to_host(granule_set what) {
    out_ = std::max(cpu_, out_) + prices_->to_host(count(what));
    moved_out_ += count(what) * granule_bytes;
  }
  void zero(granule_set what) { memory_ = std::max({cpu_, memory_, room_}) + prices_->zero(count(what)); }
  void room_after_copies() { room_ = out_; }

  nanoseconds copied_to_host() const { return out_; }
  void wait_until(nanoseconds time) { cpu_ = std::max(cpu_, time); }
  void wait_for_copies() { cpu_ = std::max({cpu_, in_, out_, memory_}); }

  // The whole operation; copies both ways cannot beat what the link carries both ways at once.
  nanoseconds time() const {
    if (moved_in_ == 0 || moved_out_ == 0) return cpu_;
    return std::max(cpu_, prices_->link_both(moved_in_ + moved_out_));
  }

 private:
  const driver_prices* prices_;
  nanoseconds cpu_ = 0, in_ = 0, out_ = 0, memory_ = 0, room_ = 0;
  byte_count moved_in_ = 0, moved_out_ = 0;
};

}  // namespace um
