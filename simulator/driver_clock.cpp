#include "simulator/driver_clock.hpp"

#include <stdexcept>
#include <string>

namespace um {
namespace {

// Maximum of one time (three days): the clock multiplies times by 1000 and adds them up, and the sum must
// stay below 2^63.
constexpr nanoseconds longest = nanoseconds{1} << 48;

}  // namespace

nanoseconds time_for(std::uint64_t amount, std::uint64_t per_second, const machine& on,
                     std::string_view rate_name) {
  if (amount == 0) return 0;
  if (per_second == 0) {
    throw std::invalid_argument("machine " + on.name + " has no " + std::string(rate_name) +
                                ", which this plan needs: add it to the machine's file");
  }
  const nanoseconds time = time_at(amount, per_second);
  if (time > longest) {
    throw std::invalid_argument("machine " + on.name + ": at " + std::string(rate_name) + " = " +
                                std::to_string(per_second) +
                                " one step takes more than three days: correct the machine's file");
  }
  return time;
}

driver_times::driver_times(const machine& on) : machine_(on), costs_(on.uvm) {
  for (unsigned n = 0; n <= granules_per_block; ++n) {
    const byte_count bytes = n * granule_bytes;
    to_device_[n] = time_for(bytes, on.link_to_device_bytes_per_s, on, "link_to_device_bytes_per_s");
    to_host_[n] = time_for(bytes, on.link_to_host_bytes_per_s, on, "link_to_host_bytes_per_s");
    zero_[n] = time_for(bytes, on.device_bytes_per_s, on, "device_bytes_per_s");
  }
}

}  // namespace um
