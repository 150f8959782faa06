// Reads the Unified Memory driver's own queue of events. CUPTI reads the same events through a queue of a few
// thousand entries and loses events without notice when it is full. This queue holds a million.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "core/units.hpp"
#include "trace/records.hpp"
#include "trace/uvm_tools.hpp"

namespace um::tracing {

using take_record = std::function<void(const unified_memory_record&)>;

using driver_event = std::span<const std::byte, uvm::event_bytes>;

// Converts times of the GPU's clock to the CPU's. The driver stamps a fault with the GPU's time when it
// happens, and with the CPU's soon after. The minimum difference of the last second or two is the offset of
// the clocks, some microseconds too large.
class gpu_time_converter {
 public:
  // Adds the two times of a fault.
  void add_sample(std::uint64_t gpu, std::uint64_t cpu);
  // Returns `gpu_time` on the CPU's clock, or `fallback` if `gpu_time` is 0 or no sample is known yet.
  std::uint64_t to_cpu_time(std::uint64_t gpu_time, std::uint64_t fallback) const;

 private:
  static constexpr std::uint64_t sample_window = 1'000'000'000, none = ~std::uint64_t{0};
  std::uint64_t min_offset_before_ = none, min_offset_ = none, since_ = 0;  // since_: start of the window
};

// Makes records of CUPTI's layout from events. A fault lasts until its batch is replayed. The faults of one
// batch in one block of 2 MiB become one record, whose value is the number of granules of 64 KiB, as the
// simulator counts faults.
class event_translator {
 public:
  // `clock_offset` is the records' clock minus the driver's, which is CLOCK_MONOTONIC_RAW. All events are
  // taken to be of `device`.
  void add(driver_event bytes, nanoseconds clock_offset, std::uint32_t device, const take_record& to);

  // Emits the faults whose replay never came. They end with the last fault of their batch.
  void end_open_batches(const take_record& to);

 private:
  struct block_faults {
    unified_memory_record record;
    std::uint32_t granules = 0;  // a bit for each granule
  };
  using block_and_access = std::pair<std::uint64_t, std::uint8_t>;
  using batch = std::map<block_and_access, block_faults>;

  void add_fault(const uvm::gpu_fault& e, nanoseconds clock_offset, std::uint32_t device);
  void add_replay(const uvm::replay& e, nanoseconds clock_offset, const take_record& to);
  static void emit_records(const batch& faults, std::uint64_t end, const take_record& to);

  std::map<std::uint32_t, batch> open_;  // batches not yet replayed, by number
  gpu_time_converter clock_;
};

// The queue: memory that the driver writes events to (UvmToolsEventControlData) and that read() empties.
class event_ring {
 public:
  // Indices into the queue. Events up to put_behind are complete; those before get_behind may be overwritten.
  struct control {
    std::atomic<std::uint32_t> get_ahead, get_behind, put_ahead, put_behind;
    std::array<std::atomic<std::uint64_t>, 64>
        lost;  // numbers of events for which the queue was full, by type
  };

  // `entries` is a power of two. If the allocation fails, memory() has no entries.
  explicit event_ring(std::uint32_t entries);
  ~event_ring();
  event_ring(const event_ring&) = delete;
  event_ring& operator=(const event_ring&) = delete;

  tracked_memory memory() const;
  // Gives every new event to `take` and returns how many there were.
  std::size_t read(const std::function<void(driver_event)>& take);
  std::uint64_t lost() const;

 private:
  std::uint32_t entries_;
  std::byte* queue_;
  control* control_;
};

// The driver's events of this process. Events do not name the GPU by CUDA's number, so the process may use
// only one GPU.
class driver_events {
 public:
  driver_events() = default;
  ~driver_events() {
    if (tracker_.file >= 0) close(tracker_.file);
  }
  driver_events(const driver_events&) = delete;
  driver_events& operator=(const driver_events&) = delete;

  // Needs a CUDA context on `device`. Without `with_faults` only migrations are reported. Returns false if
  // the driver refuses.
  bool begin(std::uint32_t device, bool with_faults);
  // Afterwards read() still returns earlier events, and faults whose replay has not come.
  void pause();
  // Any thread may call this.
  bool active() const { return active_; }
  // Makes the driver write the events of finished work now.
  void flush() const {
    if (active_) flush_events(tracker_);
  }
  // Passes the records since the last call to `to`. `clock_offset` is the records' clock minus
  // CLOCK_MONOTONIC_RAW; with 0 the times are of that clock.
  void read(nanoseconds clock_offset, const take_record& to);
  // Returns the number of events since the last call for which the queue was full.
  std::uint64_t take_lost_count();

 private:
  std::atomic<bool> active_ = false;
  tracker tracker_;
  std::uint32_t device_ = 0;
  std::uint64_t lost_before_ = 0;  // events lost before the last take_lost_count()
  std::unique_ptr<event_ring> ring_;
  event_translator translate_;
};

}  // namespace um::tracing
