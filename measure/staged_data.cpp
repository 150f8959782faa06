#include "measure/staged_data.hpp"

#include <cuda_runtime_api.h>

#include <array>

namespace um::measure {

const char* reset_text(data_state data) {
  constexpr std::array<const char*, 5> texts{
      "allocated anew, touched by nobody", "allocated anew and written by the CPU, never seen by the GPU",
      "prefetched to the CPU, where it is mapped; seen by the GPU before",
      "allocated anew, preferring the CPU, and written by the GPU over the link; then advised to prefer the "
      "GPU, which takes its mappings away, and advice withdrawn",
      "prefetched to the GPU"};
  return texts.at(static_cast<std::size_t>(data));
}

staged_data::staged_data(bench& on, data_state wanted, byte_count bytes)
    : bench_(on), wanted_(wanted), bytes_(round_up(bytes, managed_block)) {
  if (!is_kept()) return;
  memory_ = on.managed_memory(bytes_);
  fill_by_host(memory_.range());
  bring_to_device(on, memory_.range());
}

void staged_data::reset() {
  if (wanted_ == data_state::warm) return bring_to_host(bench_, memory_.range());
  if (wanted_ == data_state::device) return bring_to_device(bench_, memory_.range());
  memory_.release();
  memory_ = bench_.managed_memory(bytes_);
  if (wanted_ == data_state::cold) fill_by_host(memory_.range());
  if (wanted_ == data_state::unmapped) populate_unmapped();
}

// Memory without pages is populated at its preferred location. The CPU never touches it, so the CPU has no
// mapping. A new preferred location removes the GPU's mapping of host memory without moving data.
void staged_data::populate_unmapped() {
  advise_range(memory_.range(), advice::preferred_host, bench_.device());
  touch_all(bench_.site(), memory_.data(), bytes_, access::write);
  check(cudaStreamSynchronize(bench_.stream()));
  advise_range(memory_.range(), advice::preferred_device, bench_.device());
  withdraw_advice(memory_.range(), advice::preferred_device, bench_.device());
}

}  // namespace um::measure
