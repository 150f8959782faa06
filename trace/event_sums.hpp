// Sums by 2 MiB block, the driver's unit, so that a trace grows with the memory that a kernel touches and not
// with its faults.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "trace/records.hpp"

namespace um::tracing {

inline constexpr unsigned block_shift = 21, granule_shift = 16;  // of blocks of 2 MiB and granules of 64 KiB
inline constexpr std::uint64_t block_bytes = std::uint64_t{1} << block_shift;

// What is summed. quantity_names has the fields of a trace file.
enum class quantity : std::uint8_t {
  in_unknown,
  in_user,
  in_demand,
  in_tree,
  in_eviction,
  in_counter,  // bytes from the host to a GPU
  out_unknown,
  out_user,
  out_demand,
  out_tree,
  out_eviction,
  out_counter,  // bytes to the host
  in_peer,      // bytes from another GPU
  gpu_read_faults,
  gpu_write_faults,  // numbers of fault groups; atomic accesses count as writes
  cpu_read_faults,
  cpu_write_faults,
  thrashing,
  throttling,
  remote_maps
};
inline constexpr std::array<const char*, 20> quantity_names{
    "in_unknown",      "in_user",          "in_demand", "in_tree",         "in_eviction",
    "in_counter",      "out_unknown",      "out_user",  "out_demand",      "out_tree",
    "out_eviction",    "out_counter",      "in_peer",   "gpu_read_faults", "gpu_write_faults",
    "cpu_read_faults", "cpu_write_faults", "thrashing", "throttling",      "remote_maps"};

// A movement, fault or contention in one block.
struct event {
  nanoseconds begin = 0, end = 0;
  std::uint64_t block = 0;
  std::uint64_t amount = 0;           // bytes or a number, depending on `what`
  std::uint64_t program_counter = 0;  // address of the instruction that caused a CPU fault
  std::uint32_t records = 0;          // number of CUPTI's records that this event combines
  std::uint32_t granules = 0;         // a bit for each granule of the block
  std::uint32_t device = host;        // the GPU that it belongs to; host if the CPU caused it
  quantity what{};
};

class event_sums {
 public:
  void add(const event& e);
  bool empty() const { return sums_.empty(); }
  nanoseconds begin() const { return begin_; }
  nanoseconds end() const { return end_; }
  // The program counter of the first CPU fault, 0 without one.
  std::uint64_t program_counter() const { return program_counter_; }
  // Returns the fields `,"waiting_ns":..,"batches":..,"records":..` and the sums:
  // - waiting_ns: time in which at least one batch of GPU faults was serviced
  // - records: number of CUPTI's records; each took time that a run without a trace does not take
  // - `"in_demand":[[first block, blocks, sum],...],...`: neighbouring blocks share an entry if
  //   their bytes are equal or they moved whole; for faults all neighbours do
  // - `"granules":[[first block, blocks, mask],...]`: where less than whole blocks moved or faulted
  std::string json_fields() const;

 private:
  struct sum {
    std::uint64_t amount = 0;
    std::uint32_t granules = 0;
  };
  std::map<std::pair<quantity, std::uint64_t>, sum> sums_;
  // Span of its events; time waiting for faults; end of the last service.
  nanoseconds begin_ = 0, end_ = 0, waiting_ = 0, serviced_until_ = 0;
  std::uint64_t batches_ = 0, records_ = 0, program_counter_ = 0;
};

}  // namespace um::tracing
