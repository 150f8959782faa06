// The time of one driver operation. The driver's own work runs on a CPU; the copies that it issues run on one
// copy engine per direction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/machine.hpp"
#include "simulator/granules.hpp"

namespace um {

// Time for `amount` at a rate of machine `on`; 0 for amount 0 even if the rate is unknown. Throws
// std::invalid_argument, naming the machine and the rate, if `amount` is not 0 and the rate is 0 or so low
// that the clock could overflow.
nanoseconds time_for(std::uint64_t amount, std::uint64_t per_second, const machine& on,
                     std::string_view rate_name);

// Times that depend only on the machine.
class driver_times {
 public:
  // Throws std::invalid_argument, naming the machine and the rate, if one is missing or so low that
  // the clock could overflow.
  explicit driver_times(const machine& on);

  const uvm_costs& costs() const { return costs_; }
  // Time of a copy of that many granules of a block, in any number of runs: CUPTI shows two runs for each
  // granule that a fault asks for, which the copy engine takes as fast as one.
  nanoseconds to_device(unsigned granules) const { return to_device_[granules] + copy_overhead(granules); }
  nanoseconds to_host(unsigned granules) const { return to_host_[granules] + copy_overhead(granules); }
  nanoseconds zero(unsigned granules) const { return zero_[granules]; }
  nanoseconds copy_both_ways(byte_count bytes) const {
    return time_for(bytes, machine_.link_both_bytes_per_s, machine_, "link_both_bytes_per_s");
  }
  nanoseconds remote_read(byte_count bytes) const {
    return time_for(bytes, costs_.remote_read_bytes_per_s, machine_, "uvm.remote_read_bytes_per_s");
  }
  nanoseconds remote_write(byte_count bytes) const {
    return time_for(bytes, costs_.remote_write_bytes_per_s, machine_, "uvm.remote_write_bytes_per_s");
  }

 private:
  nanoseconds copy_overhead(unsigned granules) const {
    const nanoseconds pages =
        costs_.host_chunk_bytes == managed_block ? 0 : costs_.page_copy_ns * pages_per_granule * granules;
    return costs_.migrate_copy_ns + pages;
  }

  machine machine_;
  uvm_costs costs_;
  std::array<nanoseconds, granules_per_block + 1> to_device_{}, to_host_{}, zero_{};
};

class driver_clock {
 public:
  explicit driver_clock(const driver_times& times) : times_(&times) {}

  void work(nanoseconds time) { cpu_busy_until_ += time; }
  // Copies granules to the device. The copy waits until a running eviction has freed its memory.
  void copy_to_device(granule_set what) {
    const nanoseconds begin = std::max({cpu_busy_until_, copy_in_until_, room_free_time_});
    copy_in_until_ = begin + times_->to_device(count(what));
    moved_in_bytes_ += count(what) * granule_bytes;
  }
  void copy_to_host(granule_set what) {
    copy_out_until_ = std::max(cpu_busy_until_, copy_out_until_) + times_->to_host(count(what));
    moved_out_bytes_ += count(what) * granule_bytes;
  }
  void zero(granule_set what) {
    clearing_until_ =
        std::max({cpu_busy_until_, clearing_until_, room_free_time_}) + times_->zero(count(what));
  }
  void wait_for_room_until_copied() { room_free_time_ = copy_out_until_; }

  nanoseconds copied_to_host() const { return copy_out_until_; }
  void wait_until(nanoseconds time) { cpu_busy_until_ = std::max(cpu_busy_until_, time); }
  void wait_for_copies() {
    cpu_busy_until_ = std::max({cpu_busy_until_, copy_in_until_, copy_out_until_, clearing_until_});
  }

  // Time of the whole operation, at least that of all copies at the rate of the link in both directions at
  // once.
  nanoseconds time() const {
    if (moved_in_bytes_ == 0 || moved_out_bytes_ == 0) return cpu_busy_until_;
    return std::max(cpu_busy_until_, times_->copy_both_ways(moved_in_bytes_ + moved_out_bytes_));
  }

 private:
  const driver_times* times_;
  nanoseconds cpu_busy_until_ = 0, copy_in_until_ = 0, copy_out_until_ = 0, clearing_until_ = 0;
  nanoseconds room_free_time_ = 0;  // time at which the copies of the last eviction end
  byte_count moved_in_bytes_ = 0, moved_out_bytes_ = 0;
};

}  // namespace um
