// The tools interface of NVIDIA's Unified Memory driver: counters and events of this process
// (kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_types.h and uvm_tools.c of NVIDIA's open GPU kernel modules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace um::tracing {

// Memory that the driver writes to, in whole pages. Without a queue `control` holds counters.
struct tracked_memory {
  void* queue = nullptr;
  std::uint32_t entries = 0;  // of the queue, a power of two
  void* control = nullptr;
};

struct tracker {
  int file = -1;      // tracking ends when it is closed; -1 where the driver refuses
  int uvm_file = -1;  // the program's own
};
// `wanted` has one bit for each event or counter. Needs a CUDA context.
tracker open_tracker(const tracked_memory& memory, std::uint64_t wanted);

// Switches events of a tracker with a queue. False where the driver refuses.
bool switch_events(const tracker& of, bool on, std::uint64_t wanted);

// The driver puts finished work into the queue at once. Without this call it waits until it next has work.
void flush_events(const tracker& of);

}  // namespace um::tracing

namespace um::tracing::uvm {

// Events as the Unified Memory driver writes them into its queue: version 1 of their layouts (uvm_types.h of
// NVIDIA's open GPU kernel modules). Times are the CPU's (CLOCK_MONOTONIC_RAW) where no GPU is named.

constexpr std::size_t event_bytes = 64;  // of each entry of the queue

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

constexpr std::uint8_t the_cpu = 0;  // of processors; GPUs follow

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
  std::uint16_t unit, client;  // of the GPU that raised it
  std::uint64_t address, time, time_on_gpu;
  std::uint32_t batch;
  std::uint8_t client_type;
  std::uint8_t unused[3];
};
static_assert(offsetof(gpu_fault, access) == 2 && offsetof(gpu_fault, address) == 8);
static_assert(offsetof(gpu_fault, time) == 16 && offsetof(gpu_fault, time_on_gpu) == 24);
static_assert(offsetof(gpu_fault, batch) == 32 && sizeof(gpu_fault) == 40);

// Ends the batch of that number.
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

// Since counting began, over all GPUs.
struct driver_sums {
  std::uint64_t to_gpus = 0, to_host = 0;  // bytes of managed memory, whatever moved them
  std::uint64_t cpu_faults = 0, gpu_faults = 0;
};
driver_sums operator-(const driver_sums& a, const driver_sums& b);
// Percentage of the moved bytes that `told` lacks; 0 where too few moved to say.
std::uint64_t lost_percent(const driver_sums& moved, const driver_sums& told);

// Counters of the driver's tools interface (trace/uvm_tools.hpp). The driver adds to memory of this process.
class driver_counters {
 public:
  driver_counters();
  ~driver_counters();
  driver_counters(const driver_counters&) = delete;
  driver_counters& operator=(const driver_counters&) = delete;

  // Needs a CUDA context. False where the driver does not count for this process.
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
