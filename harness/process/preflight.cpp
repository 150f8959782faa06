#include "harness/process/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/io/say.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/summary.hpp"
#include "um_allocators/arena.hpp"

namespace um {
namespace {

// Later simulated iterations are taken to last as long as the last of these.
constexpr std::uint32_t max_simulated_iterations = 3;

cell as_brief_simulation(cell work) {
  const machine stand_in = work.planner_machine.value();
  work = as_simulated_on(std::move(work), stand_in);
  work.settings.iterations = std::min(work.settings.iterations, max_simulated_iterations);
  work.settings.timeline = false;
  return work;
}

cell_needs estimate_of(const cell& work, const record& r) {
  cell_needs e;
  e.key = work.key;
  e.on_gpu = !work.backend.is_simulated;
  e.result = r.result;
  e.reason = r.reason;
  if (r.result != outcome::ok) return e;
  e.device_bytes = r.memory.peak_device.value_or(0);
  e.device_arena_bytes = r.memory.device_arena.value_or(0);
  if (!facts_of_mode(work.settings.mode.value()).needs_permission)
    e.guarded_managed_bytes = r.memory.managed_arena.value_or(0);
  e.pinned_bytes = r.memory.pinned_arena.value_or(0);
  e.host_bytes = host_bytes_needed(e.pinned_bytes, r.memory.managed_arena.value_or(0), e.device_arena_bytes,
                                   r.memory.budget.value_or(0));
  const auto further = work.settings.iterations - static_cast<std::uint32_t>(r.samples.size());
  e.time = std::accumulate(r.samples.begin(), r.samples.end(), r.samples.back() * further);
  return e;
}

// Why a cell does not fit into memory; nothing if it fits or does not run on a GPU.
std::optional<std::string> misfit_reason(const cell_needs& e, const available_memory& r) {
  if (!e.on_gpu) return std::nullopt;
  if (e.result == outcome::infeasible) return "is infeasible: " + e.reason.value_or("");
  if (e.result != outcome::ok) return std::nullopt;
  if (r.device_free) {
    const byte_count left = *r.device_free - std::min(*r.device_free, e.device_arena_bytes);
    if (e.device_bytes > *r.device_free) {
      return fmt::format("needs {} of device memory, {} are free", to_text(e.device_bytes),
                         to_text(*r.device_free));
    }
    if (e.guarded_managed_bytes > guarded_share(left)) {
      return fmt::format(
          "needs {} of managed memory, the limit is 80 % of the {} of device memory left to it",
          to_text(e.guarded_managed_bytes), to_text(left));
    }
  }
  return shortage_text(e.host_bytes, e.pinned_bytes, r.host);
}

// Total time of iterations on a GPU, and, separately, time to simulate them here.
std::string total_text(std::span<const cell_needs> all, std::size_t jobs) {
  nanoseconds on_gpu = 0, simulated = 0;
  std::chrono::nanoseconds processor{};
  byte_count device = 0, host = 0;
  std::size_t failed = 0, gpu_cells = 0;
  for (const cell_needs& e : all) {
    (e.on_gpu ? on_gpu : simulated) += e.time;
    if (!e.on_gpu) processor += e.processor;
    gpu_cells += e.on_gpu;
    device = std::max(device, e.device_bytes);
    host = std::max(host, e.host_bytes);
    failed += e.result != outcome::ok;
  }
  std::string text = fmt::format("{} cells; at most {} on the device and {} on the host", all.size(),
                                 to_text(device), to_text(host));
  if (failed > 0) text += fmt::format("; {} end without a time", failed);
  if (gpu_cells > 0) {
    text += fmt::format("\n{} on a GPU: iterations take {} together, setting up not counted", gpu_cells,
                        time_text(static_cast<double>(on_gpu)));
  }
  if (gpu_cells < all.size()) {
    text += fmt::format(
        "\n{} simulated: iterations of {} together; to simulate them takes about {} of a processor, {} "
        "at a time",
        all.size() - gpu_cells, time_text(static_cast<double>(simulated)),
        time_text(static_cast<double>(processor.count())), jobs);
  }
  return text;
}

}  // namespace

std::optional<std::vector<cell_needs>> estimates_of(std::span<const cell> cells, std::size_t jobs,
                                                    signal_watch& signals, std::FILE* progress) {
  std::vector<cell_needs> all(cells.size());
  std::vector<cell> rehearsed;
  for (const cell& work : cells) rehearsed.push_back(as_brief_simulation(work));
  std::size_t done = 0;
  const auto ended = [&](std::size_t index, const record& r, const child_report& report) {
    all[index] = estimate_of(cells[index], r);
    all[index].processor = report.processor_time;
    if (progress == nullptr) return;
    print_to(progress, "[{}/{}] {}: {}\n", ++done, cells.size(), cells[index].key,
             to_text(all[index].result));
  };
  if (!run_cells(rehearsed, jobs, signals, ended)) return std::nullopt;
  return all;
}

std::string preflight_text(std::span<const cell_needs> all, const std::string& stand_in, std::size_t jobs,
                           const available_memory& r) {
  std::string text = fmt::format("{:>10}  {:>10}  {:>9}  cell\n", "device", "host", "time");
  for (const cell_needs& e : all) {
    if (e.result == outcome::ok) {
      text += fmt::format("{:>10}  {:>10}  {:>9}  {}\n", to_text(e.device_bytes), to_text(e.host_bytes),
                          time_text(static_cast<double>(e.time)), e.key);
    } else {
      text += fmt::format("{:>33}  {}\n", to_text(e.result), e.key);
    }
  }
  if (std::any_of(all.begin(), all.end(), [](const cell_needs& e) { return e.on_gpu; })) {
    text += fmt::format("what runs on a GPU is estimated on the simulated machine {}\n", stand_in);
  }
  if (const std::string warning = preflight_warning(all, r); !warning.empty()) text += warning + "\n";
  return text + total_text(all, jobs) + "\n";
}

std::string preflight_warning(std::span<const cell_needs> all, const available_memory& r) {
  const auto too_large = [&](const cell_needs& e) { return misfit_reason(e, r).has_value(); };
  const auto first = std::find_if(all.begin(), all.end(), too_large);
  if (first == all.end()) return "";
  return fmt::format("{} of {} cells do not fit here and will not run, such as {}: it {}",
                     std::count_if(all.begin(), all.end(), too_large), all.size(), first->key,
                     misfit_reason(*first, r).value());
}

bool any_fits(std::span<const cell_needs> all, const available_memory& r) {
  return all.empty() ||
         std::any_of(all.begin(), all.end(), [&](const cell_needs& e) { return !misfit_reason(e, r); });
}

}  // namespace um
