// The tools interface of NVIDIA's Unified Memory driver: counters and events of this process
// (kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_types.h and uvm_tools.c of NVIDIA's open GPU kernel modules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace um::tracing {

// Whole pages to which the driver writes. Without a queue, `control` holds counters.
struct tracked_memory {
  void* queue = nullptr;
  std::uint32_t entries = 0;  // length of the queue, a power of two
  void* control = nullptr;
};

struct tracker {
  int file = -1;      // tracking ends when it is closed; -1 if the driver refused
  int uvm_file = -1;  // the program's descriptor of nvidia-uvm
};
// `event_mask` has a bit for each event or counter. Needs a CUDA context.
tracker open_tracker(const tracked_memory& memory, std::uint64_t event_mask);

// Enables or disables events of a tracker with a queue. Returns false if the driver refuses.
bool switch_events(const tracker& of, bool on, std::uint64_t event_mask);

// Makes the driver write the events of finished work into the queue now. Without this call it does so when it
// next has work.
void flush_events(const tracker& of);

}  // namespace um::tracing

namespace um::tracing::uvm {

// Events as the Unified Memory driver writes them into its queue: version 1 of their layouts (uvm_types.h of
// NVIDIA's open GPU kernel modules). Times are of the CPU's clock (CLOCK_MONOTONIC_RAW) unless their names
// end in `_on_gpu`.

constexpr std::size_t event_bytes = 64;  // size of each entry of the queue

// UvmEventType
enum class event_type : std::uint8_t {
  cpu_fault = 1,
  migration = 2,
  gpu_fault = 3,
  replay = 4,
  thrashing = 10,
  throttling = 11,
  remote_map = 13
};

constexpr std::uint8_t cpu_processor = 0;  // number of the CPU; those of GPUs follow

struct cpu_fault {
  event_type type;
  std::uint8_t access;
  std::uint8_t unused[6];
  std::uint64_t address, time;
  std::uint32_t process, thread;
  std::uint64_t program_counter;
};
static_assert(offsetof(cpu_fault, access) == 1 && offsetof(cpu_fault, address) == 8);
static_assert(offsetof(cpu_fault, time) == 16 && offsetof(cpu_fault, program_counter) == 32);
static_assert(sizeof(cpu_fault) == 40);

struct migration {
  event_type type;
  std::uint8_t cause, source, destination;
  std::uint32_t unused;
  std::uint64_t address, bytes, begin, end, range_group, begin_on_gpu, end_on_gpu;
};
static_assert(offsetof(migration, cause) == 1 && offsetof(migration, source) == 2);
static_assert(offsetof(migration, destination) == 3 && offsetof(migration, address) == 8);
static_assert(offsetof(migration, bytes) == 16 && offsetof(migration, begin) == 24);
static_assert(offsetof(migration, begin_on_gpu) == 48 && offsetof(migration, end_on_gpu) == 56);
static_assert(sizeof(migration) == event_bytes);

// The driver stamps a fault when it begins to service it; the GPU, when it happens.
struct gpu_fault {
  event_type type;
  std::uint8_t kind, access, gpu;
  std::uint16_t unit, client;  // unit of the GPU that raised the fault
  std::uint64_t address, time, time_on_gpu;
  std::uint32_t batch;
  std::uint8_t client_type;
  std::uint8_t unused[3];
};
static_assert(offsetof(gpu_fault, access) == 2 && offsetof(gpu_fault, address) == 8);
static_assert(offsetof(gpu_fault, time) == 16 && offsetof(gpu_fault, time_on_gpu) == 24);
static_assert(offsetof(gpu_fault, batch) == 32 && sizeof(gpu_fault) == 40);

// The driver replays the faults of a batch, which ends it.
struct replay {
  event_type type;
  std::uint8_t gpu, client_type, unused;
  std::uint32_t batch;
  std::uint64_t time, time_on_gpu;
};
static_assert(offsetof(replay, batch) == 4 && offsetof(replay, time) == 8);
static_assert(offsetof(replay, time_on_gpu) == 16 && sizeof(replay) == 24);

struct thrashing {
  event_type type;
  std::uint8_t unused[7];
  std::uint64_t processors, address, bytes, time;
};
static_assert(offsetof(thrashing, address) == 16 && offsetof(thrashing, bytes) == 24);
static_assert(offsetof(thrashing, time) == 32 && sizeof(thrashing) == 40);

struct throttling {
  event_type type;
  std::uint8_t processor;
  std::uint8_t unused[6];
  std::uint64_t address, time;
};
static_assert(offsetof(throttling, processor) == 1 && offsetof(throttling, address) == 8);
static_assert(offsetof(throttling, time) == 16 && sizeof(throttling) == 24);

struct remote_map {
  event_type type;
  std::uint8_t source, destination, cause;
  std::uint32_t unused;
  std::uint64_t address, bytes, time, time_on_gpu;
};
static_assert(offsetof(remote_map, source) == 1 && offsetof(remote_map, destination) == 2);
static_assert(offsetof(remote_map, cause) == 3 && offsetof(remote_map, address) == 8);
static_assert(offsetof(remote_map, bytes) == 16 && offsetof(remote_map, time) == 24);
static_assert(sizeof(remote_map) == 40);

}  // namespace um::tracing::uvm

namespace um::tracing {

// The driver's own counters of this process: bytes moved and faults, without addresses, at almost no cost.

// Sums since counting began, over all GPUs.
struct driver_sums {
  std::uint64_t to_gpus = 0, to_host = 0;  // bytes of managed memory, for all causes
  std::uint64_t cpu_faults = 0, gpu_faults = 0;
};
driver_sums operator-(const driver_sums& a, const driver_sums& b);
// Returns the percentage of the moved bytes that `recorded` lacks, or 0 if fewer than 64 MiB moved.
std::uint64_t lost_percent(const driver_sums& moved, const driver_sums& recorded);

// Counters of the driver's tools interface. The driver increments them in memory of this process.
class driver_counters {
 public:
  driver_counters();
  ~driver_counters();
  driver_counters(const driver_counters&) = delete;
  driver_counters& operator=(const driver_counters&) = delete;

  // Needs a CUDA context. Returns false if the driver does not count for this process.
  bool begin();
  bool counts() const { return file_ >= 0; }
  driver_sums read() const;

 private:
  struct free_page {
    void operator()(std::uint64_t* page) const;
  };
  int file_ = -1;
  std::unique_ptr<std::uint64_t, free_page> page_;  // the driver writes here while file_ is open
};

}  // namespace um::tracing
