#include "harness/process/isolation.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "core/errors.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/process/flow.hpp"
#include "harness/process/gpu.hpp"

namespace um {
namespace {

constexpr std::chrono::seconds gpu_deadline{60};
constexpr std::string_view late = "late_";
constexpr int exit_gpu_unavailable =
    2;  // exit code if the GPU is not available; the reason is on standard error

// For tests: how the cell of this key is to fail (see start_cell()); "" if it is not.
std::string_view test_failure_of(const std::string& key) {
  const char* asked = std::getenv("UMBENCH_TEST_CELL");
  const std::string_view text = asked ? asked : "";
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || key.find(text.substr(colon + 1)) == std::string::npos) return {};
  return text.substr(0, colon);
}

// For a cell that is to fail, the environment variable UMBENCH_TEST_DEADLINE_MS sets the deadline and the
// time until a killed child is stuck.
child_limits limits_for(const cell& work) {
  child_limits within{std::chrono::seconds{work.settings.deadline_s}, work.backend.is_simulated
                                                                          ? deadline_clock_kind::processor
                                                                          : deadline_clock_kind::clock};
  const char* const shorter = std::getenv("UMBENCH_TEST_DEADLINE_MS");
  if (shorter != nullptr && !test_failure_of(work.key).empty()) {
    within.deadline = within.kill_patience = std::chrono::milliseconds{std::atoi(shorter)};
  }
  return within;
}

// Forbids this process to use more memory than now.
void limit_memory_to_current_use() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit tight{pages * static_cast<std::size_t>(getpagesize()), RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &tight);
}

void fail_as_requested(std::string_view failure) {
  if (failure == "abort") {
    std::cerr << "asked to abort" << std::endl;
    std::abort();
  }
  if (failure == "memory") limit_memory_to_current_use();
  while (failure == "hang" || failure == "sleep") pause();
}

// The probe of /proc or, for a cell that is to fail by "sleep", one that reports uninterruptible sleep.
process_probe probe_for(std::string_view failure) {
  process_probe probe = make_proc_probe();
  if (failure == "sleep") probe.state = [](pid_t) { return 'D'; };
  return probe;
}

// ": " and the end of standard error; "" if there was no output.
std::string error_summary(const child_report& report) {
  constexpr std::size_t max_length = 400;
  std::string text = one_line(report.error_tail);
  if (text.size() > max_length) text = "..." + text.substr(text.size() - max_length);
  return text.empty() ? "" : ": " + text;
}

std::string exit_text(const child_report& report) {
  if (report.signal) {
    return fmt::format("killed by {}{}{}", signal_name(*report.signal),
                       *report.signal == SIGKILL ? " from outside" : "", error_summary(report));
  }
  return fmt::format("exited with code {}{}", report.exit_code.value_or(-1), error_summary(report));
}

record failed_record(const cell& work, outcome result, std::string reason) {
  record r = make_record(work);
  r.result = result;
  r.reason = std::move(reason);
  return r;
}

std::string_view last_line(std::string_view text) {
  return text.substr(text.rfind('\n') + 1);
}

// The record that the process wrote before it counted, if any. Only this record ends with a newline, the
// final one does not.
std::optional<record> record_before_counting(const child_report& report) {
  const std::size_t end = report.output.find('\n');
  if (end == std::string::npos) return std::nullopt;
  try {
    return record_from_json(std::string_view(report.output).substr(0, end), "the cell's process");
  } catch (const input_error&) {
    return std::nullopt;
  }
}

record final_record_of(const cell& work, const child_report& report) {
  if (report.is_stuck) {
    return failed_record(
        work, outcome::hung,
        fmt::format("no result after {} s, and its process sleeps in the kernel (state {}) where it "
                    "cannot be killed; reboot the machine before its GPU is used again",
                    work.settings.deadline_s, report.last_state ? report.last_state : '?'));
  }
  if (report.has_timed_out) {
    return failed_record(
        work, outcome::timeout,
        fmt::format("no result after {} s; its process was killed", work.settings.deadline_s));
  }
  if (report.signal == SIGKILL && report.ran_out_of_memory) {
    return failed_record(work, outcome::host_out_of_memory,
                         "the kernel killed its process: the host, or its control group, ran out of memory");
  }
  if (report.exit_code != 0) return failed_record(work, outcome::crashed, exit_text(report));
  try {
    return record_from_json(last_line(report.output), "the cell's process");
  } catch (const input_error& error) {
    return failed_record(work, outcome::crashed, fmt::format("gave no record: {}", error.what()));
  }
}

// The main function of a cell's process.
int run_and_print_record(const cell& work) {
  const auto tell = [](const record& r) { std::cout << to_json(r) << std::endl; };
  std::string_view failure = test_failure_of(work.key);
  if (failure.starts_with(late)) {
    tell(run_cell(work, {}));
    failure.remove_prefix(late.size());
  }
  fail_as_requested(failure);
  std::cout << to_json(run_cell(work, tell)) << std::flush;
  return std::cout ? 0 : 1;
}

int print_gpu_facts(int device) {
  try {
    std::cout << to_json(probe_gpu(device)) << std::flush;
    return 0;
  } catch (const unsupported& error) {
    std::cerr << error.what() << std::flush;
    return exit_gpu_unavailable;
  }
}

}  // namespace

record record_of(const cell& work, const child_report& report) {
  record end = final_record_of(work, report);
  if (is_result(end.result) || end.result == outcome::hung) return end;
  std::optional<record> told = record_before_counting(report);
  if (!told) return end;
  told->counters_reason = fmt::format("the pass that counts: {}", *end.reason);
  return *told;
}

bool start_cell(child_pool& pool, std::size_t id, const cell& work) {
  try {
    pool.start(
        id, [&] { return run_and_print_record(work); }, limits_for(work),
        probe_for(test_failure_of(work.key)));
    return true;
  } catch (const no_child_available&) {
    if (pool.running() == 0) throw;
    return false;
  }
}

bool run_cells(std::span<const cell> cells, std::size_t jobs, signal_watch& signals,
               const cell_end_callback& ended, const std::function<void()>& meanwhile) {
  child_pool pool(signals);
  std::size_t next = 0;
  while (next < cells.size() || pool.running() > 0) {
    while (next < cells.size() && pool.running() < jobs && start_cell(pool, next, cells[next])) ++next;
    const auto report = pool.wait(meanwhile);
    if (!report) return false;
    ended(report->id, record_of(cells[report->id], *report), *report);
  }
  return true;
}

std::optional<std::vector<record>> run_and_collect(std::span<const cell> cells, std::size_t jobs,
                                                   signal_watch& signals,
                                                   const std::function<void()>& meanwhile,
                                                   const std::function<void(const record&)>& ended) {
  std::vector<record> all(cells.size());
  const auto keep = [&](std::size_t index, record r, const child_report&) {
    all[index] = std::move(r);
    if (ended) ended(all[index]);
  };
  if (!run_cells(cells, jobs, signals, keep, meanwhile)) return std::nullopt;
  return all;
}

gpu_facts ask_for_gpu(signal_watch& signals, int device) {
  child_pool pool(signals);
  pool.start(0, [device] { return print_gpu_facts(device); }, {gpu_deadline});
  const auto report = pool.wait();
  if (!report) throw input_error("interrupted while looking for the GPU");
  if (report->exit_code == 0) return gpu_from_json(report->output, "the process that asks for the GPU");
  if (report->exit_code == exit_gpu_unavailable) throw input_error(one_line(report->error_tail));
  throw input_error(fmt::format("cannot use cuda:{}: the question for the GPU {}", device,
                                report->has_timed_out ? "had no answer in a minute" : exit_text(*report)));
}

}  // namespace um
