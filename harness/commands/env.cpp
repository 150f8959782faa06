#include <fmt/format.h>

#include <array>

#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/io/errors.hpp"
#include "harness/json/json.hpp"
#include "harness/process/collect.hpp"
#include "harness/process/isolation.hpp"
#include "harness/study/machines.hpp"
#include "harness/study/summary.hpp"
#include "simulator/patterns.hpp"

namespace um {
namespace {

void print_fact(const char* label, const std::optional<std::string>& value) {
  fmt::print("{:<13}{}\n", label, value.value_or("unknown"));
}

std::optional<std::string> bytes_text(std::optional<byte_count> bytes) {
  return bytes ? std::optional(to_text(*bytes)) : std::nullopt;
}

void print_gpu(const gpu_facts& g) {
  print_fact("GPU", fmt::format("{}, {}, compute capability {}", g.name, to_text(g.memory_bytes),
                                g.compute_capability));
  print_fact("driver", g.driver);
  print_fact("CUDA",
             fmt::format("runtime {}, driver supports {}, cuDNN {}", g.cuda_runtime, g.cuda_driver, g.cudnn));
  print_fact("managed", fmt::format("concurrent access {}, pageable access {}",
                                    g.concurrent_managed_access ? "yes" : "no",
                                    g.pageable_memory_access ? "yes" : "no"));
}

void print_facts(const char* owner, const fact_sheet& facts) {
  for (const auto& [name, value] : facts.known) fmt::print("{:<13}{} = {}\n", owner, name, value);
  for (const auto& [name, why] : facts.missing) fmt::print("{:<13}{} is not known: {}\n", owner, name, why);
}

void print_environment(const environment& e, const std::string& why_no_gpu) {
  print_fact("umbench", fmt::format("{}, built by {}, {} CUDA backend", e.umbench, e.compiler,
                                    e.has_cuda_backend ? "with" : "without"));
  print_fact("system", e.host.os);
  print_fact("kernel", e.host.kernel);
  print_fact("CPU", e.host.cpu);
  print_fact("cores", e.host.cores ? std::optional(std::to_string(*e.host.cores)) : std::nullopt);
  print_fact("memory", bytes_text(e.host.memory_bytes));
  print_fact("cgroup limit", e.host.cgroup_limit_bytes ? to_text(*e.host.cgroup_limit_bytes) : "none");
  if (e.gpu) {
    print_gpu(*e.gpu);
  } else {
    print_fact("GPU", "none: " + why_no_gpu);
  }
  print_facts("host", e.host.facts);
  if (e.gpu) print_facts("GPU", e.gpu->facts);
  if (!e.nvidia_uvm) return;
  for (const auto& [name, value] : *e.nvidia_uvm) fmt::print("nvidia_uvm   {} = {}\n", name, value);
}

struct pinned_copy_rate {
  const char* what;
  std::uint64_t machine::* rate;
};
constexpr std::array<pinned_copy_rate, 3> pinned_copy_rates{{
    {"pinned copy to the device", &machine::link_to_device_bytes_per_s},
    {"pinned copy to the host", &machine::link_to_host_bytes_per_s},
    {"pinned copies both ways at once", &machine::link_both_bytes_per_s},
}};

struct managed_transfer {
  const char* what;
  const char* pattern;
  std::uint64_t machine::* link;  // rate of pinned copies in that direction
};
constexpr std::array<managed_transfer, 5> managed_transfers{{
    {"prefetch to the device", "prefetch_in_1GiB", &machine::link_to_device_bytes_per_s},
    {"prefetch to the host", "prefetch_out_1GiB", &machine::link_to_host_bytes_per_s},
    {"kernel faults, data seen before", "stream_read", &machine::link_to_device_bytes_per_s},
    {"kernel faults, data never seen", "stream_cold", &machine::link_to_device_bytes_per_s},
    {"kernel reads over the link", "remote_read", &machine::link_to_device_bytes_per_s},
}};

void print_transfer_method(const char* method, double rate, double link_rate) {
  fmt::print("  {:<34}{:>7.1f} GB/s {:>4.0f} %\n", method, rate / 1e9, 100 * rate / link_rate);
}

// Prints the share of the link's rate that each way of moving data reaches; managed memory is simulated.
void print_link_rates(const machine& target) {
  fmt::print("\nlink of machine file {}, {}\n", target.name, provenance(target));
  for (const pinned_copy_rate& w : pinned_copy_rates) {
    print_transfer_method(w.what, static_cast<double>(target.*w.rate), static_cast<double>(target.*w.rate));
  }
  for (const managed_transfer& w : managed_transfers) {
    print_transfer_method(w.what, rate_of(find_pattern(w.pattern)->simulate(target)),
                          static_cast<double>(target.*w.link));
  }
}

}  // namespace

int env_command(const env_options& options) {
  std::optional<machine> link;
  if (!options.machine.empty()) link = find_machine(load_machines_from(options.machines), options.machine);
  if (link && options.json) throw input_error("--machine is not for --json; leave one out");
  signal_watch signals;
  std::optional<gpu_facts> gpu;
  std::string why_no_gpu;
  try {
    gpu = ask_for_gpu(signals, 0);
  } catch (const input_error& error) {
    why_no_gpu = error.what();
  }
  if (const auto stop = signals.stop_signal()) return 128 + *stop;
  const environment here = collect_environment(std::move(gpu));
  if (options.json) {
    fmt::print("{}\n", to_json(here));
  } else {
    print_environment(here, why_no_gpu);
  }
  if (link) print_link_rates(*link);
  return 0;
}

}  // namespace um
