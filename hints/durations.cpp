#include "hints/durations.hpp"

#include <algorithm>

namespace um {
namespace {

constexpr nanoseconds pages_per_block = managed_block / (4 * KiB);

nanoseconds link_time(byte_count blocks, std::uint64_t rate) {
  return rate == 0 ? 0 : time_at(blocks * managed_block, rate);
}

}  // namespace

nanoseconds evict_time(const machine& m, byte_count blocks, residence home) {
  const auto count = static_cast<nanoseconds>(blocks);
  if (home == residence::twinned) {
    return m.launch_ns + std::max(link_time(blocks, rate_to_twin(m)), discard_time(m, blocks));
  }
  const nanoseconds mapped = count * pages_per_block * m.uvm.host_map_page_ns;
  return m.uvm.prefetch_to_host_call_ns + count * 2 * m.uvm.prefetch_block_ns +
         std::max(mapped, link_time(blocks, m.link_to_host_bytes_per_s));
}

nanoseconds discard_time(const machine& m, byte_count blocks) {
  return static_cast<nanoseconds>(blocks) * m.uvm.discard_block_ns;
}

}  // namespace um
