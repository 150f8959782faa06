// The driver's own counters of this process: bytes moved and faults, without addresses, at almost no cost.
#pragma once

#include <cstdint>
#include <memory>

namespace um::tracing {

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
