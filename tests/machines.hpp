// Machines that tests plan and simulate on, of round figures.
#pragma once

#include "core/machine.hpp"

namespace um::testing {

// An older GPU, and a driver of which nothing is known.
inline machine test_machine() {
  machine m;
  m.name = "test";
  m.device_bytes = 16 * GiB;
  m.host_bytes = 64 * GiB;
  m.fp32_flops_per_s = 10'000'000'000'000;
  m.tf32_flops_per_s = 40'000'000'000'000;
  m.bf16_flops_per_s = 80'000'000'000'000;
  m.device_bytes_per_s = 500'000'000'000;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = 12'000'000'000;
  m.link_both_bytes_per_s = 20'000'000'000;
  m.launch_ns = 4000;
  m.copy_ns = 10'000;
  return m;
}

// The same with a driver that manages memory.
inline machine managed_test_machine() {
  machine m = test_machine();
  m.uvm.batch_ns = 20'000;
  m.uvm.service_ns = 10'000;
  m.uvm.interrupt_ns = 10'000;
  m.uvm.batch_granules = 4;
  m.uvm.prefetch_call_ns = 10'000;
  m.uvm.host_map_page_ns = 150;
  m.uvm.remote_read_bytes_per_s = m.uvm.remote_write_bytes_per_s = 10'000'000'000;
  return m;
}

// A current one on a fast link; only what calls of hints take is known of its driver.
inline machine fast_test_machine() {
  machine m;
  m.name = "fast";
  m.device_bytes = m.host_bytes = 64 * GiB;
  m.fp32_flops_per_s = 50'000'000'000'000;
  m.tf32_flops_per_s = m.bf16_flops_per_s = m.fp32_flops_per_s;
  m.device_bytes_per_s = 4'000'000'000'000;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = 55'000'000'000;
  m.link_both_bytes_per_s = 101'000'000'000;
  m.launch_ns = 3000;
  m.uvm.remote_read_bytes_per_s = m.uvm.remote_write_bytes_per_s = 50'000'000'000;
  m.uvm.prefetch_block_ns = 500;
  m.uvm.populate_ns = 2000;
  m.uvm.discard_block_ns = 6000;
  m.uvm.host_map_page_ns = 200;
  return m;
}

}  // namespace um::testing
