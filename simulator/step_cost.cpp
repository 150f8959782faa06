#include <algorithm>
#include <stdexcept>
#include <string>

#include "simulator/driver_clock.hpp"
#include "simulator/execute.hpp"
#include "simulator/kernel_touches.hpp"

namespace um {
namespace {

template <class T>
void add(std::optional<T>& sum, T amount) {
  sum = sum.value_or(0) + amount;
}

void add_to_counters(const managed_traffic& t, counters& moved) {
  add(moved.faults, t.faulted_granules);
  add(moved.fault_batches, t.batches);
  add(moved.fault_to_device_bytes, t.fault_bytes);
  add(moved.prefetch_to_device_bytes, t.prefetched_in_bytes);
  add(moved.driver_evict_bytes,
      t.evicted_bytes + t.host_fault_bytes);  // all bytes that the driver moves to the host
  add(moved.plan_evict_bytes, t.prefetched_out_bytes);
  add(moved.evicted_blocks, t.evicted_blocks);
  add(moved.remote_bytes, t.remote_bytes);
}

nanoseconds time_of(const simulation_input& run, const compute& c) {
  if (c.op >= run.costs.size()) {
    throw std::invalid_argument("the profile has " + std::to_string(run.costs.size()) +
                                " operators but the plan computes number " + std::to_string(c.op));
  }
  return cost_of(run.network, run.costs, run.on, run.cost_of_slice, c).time;
}

// Time of copies on the device before and after a kernel: a launch each, and the bytes that they read and
// write. Copies of managed memory touch it; copies of host memory use the link.
nanoseconds time_of_copies(const simulation_input& run, const std::vector<pitched_copy>& copies,
                           managed_memory& memory, managed_traffic& traffic) {
  nanoseconds time = 0;
  const auto touch = [&](const address& at, const pitched_copy& c, byte_count pitch, byte_count slice,
                         access_mode mode) {
    if (at.where != space::managed) return;
    for (byte_count z = 0; z < c.depth; ++z) {
      for (byte_count y = 0; y < c.height; ++y) {
        traffic += memory.touch({at.offset + z * slice + y * pitch, c.width}, mode);
      }
    }
  };
  for (const pitched_copy& c : copies) {
    const bool linked = c.from.where == space::pinned || c.to.where == space::pinned;
    touch(c.from, c, c.from_pitch, c.from_slice, access_mode::read);
    touch(c.to, c, c.to_pitch, c.to_slice, access_mode::write);
    time += run.on.launch_ns;
    if (linked) {
      const bool in = c.from.where == space::pinned;
      time +=
          time_for(bytes_of(c), in ? run.on.uvm.remote_read_bytes_per_s : run.on.uvm.remote_write_bytes_per_s,
                   run.on, in ? "uvm.remote_read_bytes_per_s" : "uvm.remote_write_bytes_per_s");
      traffic.remote_bytes += bytes_of(c);
    } else {
      time += time_for(2 * bytes_of(c), run.on.device_bytes_per_s, run.on, "device_bytes_per_s");
    }
  }
  return time;
}

step_cost run_compute(const simulation_input& run, const step& s, managed_memory& memory, counters& moved) {
  managed_traffic copied;
  const nanoseconds gathering = time_of_copies(run, s.gathers, memory, copied);
  managed_traffic traffic = touch_operands(run, s, memory);
  const nanoseconds scattering = time_of_copies(run, s.scatters, memory, copied);
  traffic += copied;
  add_to_counters(traffic, moved);
  return {time_of(run, std::get<compute>(s.command)) + gathering + scattering + traffic.time, 0, false,
          traffic.time, 0};
}

step_cost run_copy(const simulation_input& run, const step& s, bool to_device, counters& moved) {
  const machine& on = run.on;
  const std::uint64_t rate = to_device ? on.link_to_device_bytes_per_s : on.link_to_host_bytes_per_s;
  const char* name = to_device ? "link_to_device_bytes_per_s" : "link_to_host_bytes_per_s";
  byte_count bytes = 0;
  nanoseconds fixed = 0;
  for (const pitched_copy& c : s.copies) {
    bytes += bytes_of(c);
    fixed += c.made_by == copier::kernel ? on.launch_ns : on.copy_ns;
  }
  add(to_device ? moved.copy_to_device_bytes : moved.copy_to_host_bytes, bytes);
  return {fixed + time_for(bytes, rate, on, name), bytes > 0 ? rate : 0};
}

// Copies between the managed range and its pinned twin, by a kernel of few thread blocks at the step's rate.
// Before a copy to the device its blocks are discarded and prefetched, which takes no longer than the
// prefetch alone (results/microbenchmarks, "discard_and_prefetch"). Discards after a copy to the host overlap
// the next copy.
step_cost run_copy_with_twin(const simulation_input& run, const step& s, bool to_device,
                             managed_memory& memory, counters& moved) {
  const machine& on = run.on;
  managed_traffic traffic;
  for (const range& r : s.populate_or_discard) {
    if (!to_device) continue;
    memory.discard(r);
    traffic += memory.prefetch_to_device(r);
  }
  byte_count bytes = 0;
  for (const managed_target& m : s.managed_targets) {
    bytes += m.device_range.bytes;
    traffic += memory.touch(m.device_range, to_device ? access_mode::write : access_mode::read);
  }
  nanoseconds discarding = 0;
  for (const range& r : s.populate_or_discard) {
    if (!to_device) discarding += memory.discard(r).time;
  }
  add(to_device ? moved.copy_to_device_bytes : moved.copy_to_host_bytes, bytes);
  add_to_counters(traffic, moved);
  const std::uint64_t rate = s.copy_bytes_per_s;
  const char* name = to_device ? "uvm.remote_read_bytes_per_s" : "uvm.remote_write_bytes_per_s";
  const nanoseconds copying =
      static_cast<nanoseconds>(s.managed_targets.size()) * on.launch_ns + time_for(bytes, rate, on, name);
  return {std::max(copying, discarding) + traffic.time, bytes > 0 ? rate : 0};
}

// Average rate at which a call uses the link. Evictions that a prefetch causes are not counted.
std::uint64_t average_link_rate(const managed_traffic& t) {
  const byte_count bytes = std::max(t.prefetched_in_bytes, t.prefetched_out_bytes);
  if (t.time == 0 || bytes == 0) return 0;
  return static_cast<std::uint64_t>(
      time_at(bytes, static_cast<std::uint64_t>(t.time)));  // bytes * 1e9 / time
}

managed_traffic evict_in_calls(range what, byte_count call_bytes, managed_memory& memory) {
  managed_traffic all;
  const byte_count most = call_bytes == 0 ? what.bytes : call_bytes;
  for (byte_count at = 0; at < what.bytes; at += most) {
    all += memory.prefetch_to_host({what.offset + at, std::min(most, what.bytes - at)});
  }
  return all;
}

step_cost run_driver_calls(const step& s, managed_memory& memory, counters& moved) {
  managed_traffic traffic;
  for (const managed_target& m : s.managed_targets) {
    std::visit(
        overloaded{[&](const prefetch&) { traffic += memory.prefetch_to_device(m.device_range, true); },
                   [&](const evict&) { traffic += evict_in_calls(m.device_range, s.call_bytes, memory); },
                   [&](const discard&) { traffic += memory.discard(m.device_range); },
                   [&](const advise& a) { memory.advise(m.device_range, a.hint); }, [](const compute&) {}},
        s.command);
  }
  add_to_counters(traffic, moved);
  const std::uint64_t rate = average_link_rate(traffic);
  const auto calls = static_cast<nanoseconds>(std::max<std::uint64_t>(traffic.prefetch_calls, 1));
  const bool evicts = std::holds_alternative<evict>(s.command);
  return {traffic.time, rate, rate > 0, 0, evicts ? traffic.time / calls : 0};
}

}  // namespace

step_cost execute_step(const simulation_input& run, const step& s, managed_memory& memory, counters& moved) {
  if (!s.is_needed) return {};
  if (std::holds_alternative<compute>(s.command)) return run_compute(run, s, memory, moved);
  if (s.home == residence::managed) return run_driver_calls(s, memory, moved);
  if (std::holds_alternative<advise>(s.command)) return run_driver_calls(s, memory, moved);
  if (s.home == residence::twinned && std::holds_alternative<discard>(s.command))
    return run_driver_calls(s, memory, moved);
  if (s.home == residence::twinned) {
    return run_copy_with_twin(run, s, std::holds_alternative<prefetch>(s.command), memory, moved);
  }
  if (s.home != residence::staged) return {};
  if (std::holds_alternative<prefetch>(s.command)) return run_copy(run, s, true, moved);
  if (std::holds_alternative<evict>(s.command)) return run_copy(run, s, false, moved);
  return {};
}

}  // namespace um
