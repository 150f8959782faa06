#include "simulator/driver_clock.hpp"

#include "simulator/cost.hpp"

namespace um {

driver_times::driver_times(const machine& on) : machine_(on), costs_(on.uvm) {
  for (unsigned n = 0; n <= granules_per_block; ++n) {
    const byte_count bytes = n * granule_bytes;
    to_device_[n] = time_for(bytes, on.link_to_device_bytes_per_s, on, "link_to_device_bytes_per_s");
    to_host_[n] = time_for(bytes, on.link_to_host_bytes_per_s, on, "link_to_host_bytes_per_s");
    zero_[n] = time_for(bytes, on.device_bytes_per_s, on, "device_bytes_per_s");
  }
}

nanoseconds driver_times::copy_both_ways(byte_count bytes) const {
  return time_for(bytes, machine_.link_both_bytes_per_s, machine_, "link_both_bytes_per_s");
}

nanoseconds driver_times::remote_read(byte_count bytes) const {
  return time_for(bytes, costs_.remote_read_bytes_per_s, machine_, "uvm.remote_read_bytes_per_s");
}

nanoseconds driver_times::remote_write(byte_count bytes) const {
  return time_for(bytes, costs_.remote_write_bytes_per_s, machine_, "uvm.remote_write_bytes_per_s");
}

}  // namespace um
