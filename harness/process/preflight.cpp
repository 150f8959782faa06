#include "harness/process/preflight.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "harness/process/cgroup.hpp"
#include "harness/process/isolation.hpp"
#include "harness/records/summary.hpp"
#include "um_allocators/arena.hpp"

namespace um {
namespace {

// Of a line "NAME:   123 kB".
std::optional<byte_count> meminfo(std::string_view wanted) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (byte_count value = 0; file >> name >> value;) {
    std::getline(file, unit);
    if (name == wanted) return value * 1024;
  }
  return std::nullopt;
}

// The last of these stands for all further ones.
constexpr std::uint32_t most_rehearsed = 3;

// The cell as it is simulated.
cell rehearsal(cell work, const machine& stand_in) {
  experiment& e = work.what;
  if (!parse_backend(e.backend).simulated) {
    e.backend = "sim:" + stand_in.name;
    e.workspace_cap.reset();
    if (e.mode == run_mode::native) e.mode = run_mode::simulated;
    work.on = stand_in;
  }
  e.iterations = std::min(e.iterations, most_rehearsed);
  e.timeline = false;
  return work;
}

estimate estimate_of(const cell& work, const record& r) {
  estimate e;
  e.key = key_of(work.what);
  e.on_gpu = !parse_backend(work.what.backend).simulated;
  e.result = r.result;
  e.reason = r.reason;
  if (r.result != outcome::ok) return e;
  e.device_bytes = r.memory.peak_device.value_or(0);
  e.device_arena_bytes = r.memory.device_arena.value_or(0);
  if (work.what.mode != run_mode::native) e.guarded_bytes = r.memory.managed_arena.value_or(0);
  e.pinned_bytes = r.memory.pinned_arena.value_or(0);
  e.host_bytes = host_bytes_needed(e.pinned_bytes, r.memory.managed_arena.value_or(0), e.device_arena_bytes,
                                   r.memory.budget.value_or(0));
  const auto further = work.what.iterations - static_cast<std::uint32_t>(r.samples.size());
  e.time = std::accumulate(r.samples.begin(), r.samples.end(), r.samples.back() * further);
  return e;
}

// Why a cell would find too little room; nothing if it fits, or runs on no GPU.
std::optional<std::string> misfit(const estimate& e, const room& r) {
  if (!e.on_gpu) return std::nullopt;
  if (e.result == outcome::infeasible) return "is infeasible: " + e.reason.value_or("");
  if (e.result != outcome::ok) return std::nullopt;
  if (r.device_free) {
    const byte_count left = *r.device_free - std::min(*r.device_free, e.device_arena_bytes);
    if (e.device_bytes > *r.device_free) {
      return fmt::format("needs {} of device memory, {} are free", to_text(e.device_bytes),
                         to_text(*r.device_free));
    }
    if (e.guarded_bytes > guarded_share(left)) {
      return fmt::format(
          "needs {} of managed memory, the limit is 80 % of the {} of device memory left to it",
          to_text(e.guarded_bytes), to_text(left));
    }
  }
  return shortage(e.host_bytes, e.pinned_bytes, r.host);
}

std::string total_text(std::span<const estimate> all) {
  nanoseconds time = 0;
  byte_count device = 0, host = 0;
  std::size_t failed = 0;
  for (const estimate& e : all) {
    time += e.time;
    device = std::max(device, e.device_bytes);
    host = std::max(host, e.host_bytes);
    failed += e.result != outcome::ok;
  }
  std::string text = fmt::format("{} cells; iterations take {} together, setting up not counted", all.size(),
                                 time_text(static_cast<double>(time)));
  text += fmt::format("; at most {} on the device and {} on the host", to_text(device), to_text(host));
  return failed == 0 ? text : text + fmt::format("; {} end without a time", failed);
}

}  // namespace

host_memory host_memory_now() {
  host_memory m;
  m.available = meminfo("MemAvailable:").value_or(0);
  m.swap_free = meminfo("SwapFree:");
  m.cgroup_left = own_cgroup_memory().left;
  rlimit pinned{};
  if (getrlimit(RLIMIT_MEMLOCK, &pinned) == 0 && pinned.rlim_cur != RLIM_INFINITY)
    m.may_pin = pinned.rlim_cur;
  return m;
}

byte_count usable(const host_memory& m) {
  const byte_count least = std::min(m.available, m.cgroup_left.value_or(m.available));
  return least - std::min(least / 10, byte_count{8} << 30);
}

byte_count host_bytes_needed(byte_count pinned, byte_count managed, byte_count device_arena,
                             byte_count budget) {
  const byte_count room = budget - std::min(budget, device_arena);
  return pinned + (managed - std::min(managed, room));
}

byte_count host_bytes_needed(const execution_plan& plan) {
  return host_bytes_needed(plan.pinned_arena_bytes, plan.managed_arena_bytes, plan.device_arena_bytes,
                           plan.budget);
}

std::optional<std::string> shortage(byte_count needed, byte_count pinned, const host_memory& m) {
  if (needed <= usable(m)) return std::nullopt;
  std::string text = fmt::format("needs {} of host memory ({} pinned) and may take {}: {} available",
                                 to_text(needed), to_text(pinned), to_text(usable(m)), to_text(m.available));
  if (m.cgroup_left) text += fmt::format(", {} left to its control group", to_text(*m.cgroup_left));
  text += ", less a tenth kept free";
  if (m.swap_free.value_or(0) > 0) text += fmt::format("; {} of swap do not count", to_text(*m.swap_free));
  if (m.may_pin && pinned > *m.may_pin) text += fmt::format("; RLIMIT_MEMLOCK is {}", to_text(*m.may_pin));
  return text;
}

std::optional<std::vector<estimate>> estimates_of(std::span<const cell> cells, const machine& stand_in,
                                                  std::size_t jobs, signal_watch& signals) {
  std::vector<estimate> all(cells.size());
  child_pool pool(signals);
  std::size_t next = 0;
  while (next < cells.size() || pool.running() > 0) {
    while (next < cells.size() && pool.running() < jobs) {
      start_cell(pool, next, rehearsal(cells[next], stand_in));
      ++next;
    }
    const auto report = pool.wait();
    if (!report) return std::nullopt;
    all[report->id] =
        estimate_of(cells[report->id], record_of(rehearsal(cells[report->id], stand_in), *report));
  }
  return all;
}

std::string preflight_text(std::span<const estimate> all, const std::string& stand_in, const room& r) {
  std::string text = fmt::format("{:>10}  {:>10}  {:>9}  cell\n", "device", "host", "time");
  for (const estimate& e : all) {
    if (e.result == outcome::ok) {
      text += fmt::format("{:>10}  {:>10}  {:>9}  {}\n", to_text(e.device_bytes), to_text(e.host_bytes),
                          time_text(static_cast<double>(e.time)), e.key);
    } else {
      text += fmt::format("{:>33}  {}\n", to_text(e.result), e.key);
    }
  }
  if (std::any_of(all.begin(), all.end(), [](const estimate& e) { return e.on_gpu; })) {
    text += fmt::format("what runs on a GPU is estimated on the simulated machine {}\n", stand_in);
  }
  if (const std::string warning = preflight_warning(all, r); !warning.empty()) text += warning + "\n";
  return text + total_text(all) + "\n";
}

std::string preflight_warning(std::span<const estimate> all, const room& r) {
  const auto too_large = [&](const estimate& e) { return misfit(e, r).has_value(); };
  const auto first = std::find_if(all.begin(), all.end(), too_large);
  if (first == all.end()) return "";
  return fmt::format("{} of {} cells do not fit here and will not run, such as {}: it {}",
                     std::count_if(all.begin(), all.end(), too_large), all.size(), first->key,
                     misfit(*first, r).value());
}

bool any_fits(std::span<const estimate> all, const room& r) {
  return all.empty() || std::any_of(all.begin(), all.end(), [&](const estimate& e) { return !misfit(e, r); });
}

}  // namespace um
