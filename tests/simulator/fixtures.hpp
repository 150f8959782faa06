// A machine with round figures and plans written by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/lower.hpp"
#include "simulator/execute.hpp"

namespace um {

inline constexpr access_mode reads = access_mode::read, writes = access_mode::write;

inline constexpr range blocks(std::uint64_t first, std::uint64_t count) {
  return {first * managed_block, count * managed_block};
}

// The rate at which n blocks take a millisecond.
inline constexpr std::uint64_t blocks_per_ms(std::uint64_t n) {
  return n * managed_block * 1000;
}
inline constexpr nanoseconds ms = 1'000'000;

// Rates such that a few blocks take round times; no fixed costs.
inline machine round_machine() {
  machine m;
  m.name = "round";
  m.device_bytes = 1024 * managed_block;
  m.host_bytes = 4096 * managed_block;
  m.fp32_flops_per_s = 1'000'000'000'000;
  m.device_bytes_per_s = blocks_per_ms(100);
  m.link_to_device_bytes_per_s = blocks_per_ms(10);
  m.link_to_host_bytes_per_s = blocks_per_ms(10);
  m.link_both_bytes_per_s = blocks_per_ms(10);
  m.uvm.batch_granules = 32;
  m.uvm.faults_of_page = 2;
  m.uvm.sparse_granules = 17;
  m.uvm.unmap_run_granules = 4;
  m.uvm.remote_read_bytes_per_s = m.uvm.remote_write_bytes_per_s = blocks_per_ms(10);
  return m;
}

// Operators that do nothing but take time, over tensors of whole blocks; steps added by hand.
class hand_plan {
 public:
  graph network;
  execution_plan plan;
  profile costs;
  machine on = round_machine();

  // A tensor of one block for each index of its first extent.
  tensor_id add_tensor(std::int64_t blocks_long, residence home, address at, role use = role::activation) {
    const std::int64_t floats = static_cast<std::int64_t>(managed_block / 4);
    network.tensors.push_back(
        {"t" + std::to_string(network.tensors.size()), {blocks_long, floats, 1, 1}, dtype::f32, use});
    plan.home.push_back(home);
    plan.at_start.push_back(at);
    plan.at_end.push_back(at);
    if (at.where == space::managed) {
      plan.managed_arena_bytes = std::max(plan.managed_arena_bytes,
                                          at.offset + static_cast<byte_count>(blocks_long) * managed_block);
    }
    return static_cast<tensor_id>(network.tensors.size() - 1);
  }

  operand whole(tensor_id t, access_mode mode) const {
    return {{t, whole_of(network.tensors[t].shape), mode}, plan.at_start[t]};
  }

  std::int32_t add_compute(nanoseconds time, std::vector<operand> operands,
                           std::vector<std::int32_t> waits = {}) {
    network.ops.push_back({"op" + std::to_string(network.ops.size()), relu{}, {}, {}, true, {}});
    costs.push_back({time, 0, "hand"});
    step s;
    s.command = compute{static_cast<op_id>(network.ops.size() - 1), {}};
    s.operands = std::move(operands);
    return add(std::move(s), lane::compute, waits);
  }

  std::int32_t add_move(action what, tensor_id t, std::vector<std::int32_t> waits = {}) {
    step s;
    s.command = what;
    s.home = plan.home[t];
    const byte_count bytes = bytes_of(network.tensors[t]);
    if (s.home == residence::staged) {
      s.copies = {{{}, {}, bytes, 1, 1, bytes, bytes, bytes, bytes}};
    } else {
      s.managed_targets = {{{plan.at_start[t].offset, bytes}, 0}};
    }
    s.call_bytes = 8 * MiB;
    s.copy_bytes_per_s = std::holds_alternative<prefetch>(what) ? rate_from_twin(on) : rate_to_twin(on);
    const lane where = std::holds_alternative<prefetch>(what) ? lane::to_device
                       : std::holds_alternative<evict>(what)  ? lane::to_host
                                                              : lane::compute;
    return add(std::move(s), where, waits);
  }

  simulation_input run() const { return {network, plan, on, costs}; }

  // Iterations from the initial state.
  std::vector<trace> simulate(int iterations, bool timeline = false) const {
    managed_memory memory = managed_at_start(run());
    std::vector<trace> all;
    for (int i = 0; i < iterations; ++i) all.push_back(run_iteration(run(), memory, timeline));
    return all;
  }

 private:
  std::int32_t add(step s, lane where, const std::vector<std::int32_t>& waits) {
    s.in_lane = where;
    for (const std::int32_t w : waits) {
      auto& slot = s.waits_for[static_cast<std::size_t>(plan.steps[static_cast<std::size_t>(w)].in_lane)];
      slot = std::max(slot, w);
    }
    plan.steps.push_back(std::move(s));
    return static_cast<std::int32_t>(plan.steps.size() - 1);
  }
};

inline address managed_at(std::uint64_t block) {
  return {space::managed, block * managed_block};
}

}  // namespace um
