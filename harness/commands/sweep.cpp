#include "harness/json/sweep.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/commands/limits.hpp"
#include "harness/commands/scripts.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/json/merge.hpp"
#include "harness/process/preflight.hpp"
#include "harness/process/sweep_runner.hpp"

namespace um {
namespace {

constexpr std::int64_t max_shards = 100'000;

// Selects every N-th cell, beginning with the I-th, for text "I/N".
std::vector<cell> select_shard(std::vector<cell> cells, const std::string& text) {
  if (text.empty()) return cells;
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    throw input_error(fmt::format("--shard: \"{}\" is not of the form I/N, such as 1/4", one_line(text)));
  }
  const std::int64_t of = parse_whole_number("--shard I/N: N", text.substr(slash + 1), 1, max_shards);
  const std::int64_t part = parse_whole_number("--shard I/N: I", text.substr(0, slash), 1, of);
  std::vector<cell> mine;
  for (std::size_t i = static_cast<std::size_t>(part - 1); i < cells.size();
       i += static_cast<std::size_t>(of)) {
    mine.push_back(std::move(cells[i]));
  }
  return mine;
}

std::size_t usable_cores() {
  return parse_jobs("", true);
}

// Prints the expected needs of the cells and returns the exit code.
int simulate_before_run(std::vector<cell> cells, const machine& stand_in, std::size_t jobs) {
  for (cell& c : cells) {
    if (!c.backend.is_simulated) c.planner_machine = stand_in;
  }
  signal_watch signals;
  const auto all = estimates_of(cells, jobs, signals, stderr);
  if (!all) return 128 + signals.stop_signal().value_or(0);
  fmt::print("{}", preflight_text(*all, stand_in.name, jobs, {host_memory_now()}));
  return 0;
}

// Reports GPU cells that do not fit into memory. Throws input_error if none fits. Returns false if a stop
// signal came.
bool preflight(std::vector<cell> cells, const gpu_facts& gpu, signal_watch& signals) {
  for (cell& c : cells) {
    if (!c.backend.is_simulated && gpu.free_bytes) c.planner_machine->device_bytes = *gpu.free_bytes;
  }
  const auto all = estimates_of(cells, usable_cores(), signals);
  if (!all) return false;
  const available_memory here{host_memory_now(), gpu.free_bytes};
  const std::string warning = preflight_warning(*all, here);
  if (!any_fits(*all, here)) {
    throw input_error(warning + "; make room, or run it all the same with --no-preflight");
  }
  if (!warning.empty()) print_text("{}\n", warning);
  return true;
}

int print_cells(const std::vector<cell>& cells) {
  for (const cell& c : cells) fmt::print("{}\n", c.key);
  fmt::print("{} cells\n", cells.size());
  return 0;
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view harmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string command_to_resume(const sweep_options& options, const std::string& out) {
  std::string words =
      fmt::format("umbench sweep {} --out {} --resume", shell_quoted(options.spec), shell_quoted(out));
  if (!options.shard.empty()) words += " --shard " + options.shard;
  if (!options.jobs.empty()) words += " --jobs " + options.jobs;
  if (!options.machines.empty()) words += " --machines " + shell_quoted(options.machines);
  if (options.no_skip) words += " --no-skip";
  if (options.no_preflight) words += " --no-preflight";
  if (options.times_only) words += " --times-only";
  if (options.allow_native) words += " --allow-native-oversubscription";
  return words;
}

int report_sweep_end(const sweep_result& result, const sweep_options& options, std::size_t cells,
                     const std::string& out) {
  if (result.stop_signal) {
    print_text("umbench: stopped by {}; {} of {} cells are in {}; go on with: {}\n",
               signal_name(*result.stop_signal), result.records.size(), cells, out,
               command_to_resume(options, out));
    return 128 + *result.stop_signal;
  }
  if (result.hung_cell) {
    print_text(
        "umbench: {} hangs in the kernel and cannot be killed, and cells after it might too, so the sweep "
        "stops; {} of {} cells are in {}; reboot the machine, then go on without that cell with: {}\n",
        *result.hung_cell, result.records.size(), cells, out, command_to_resume(options, out));
    return 1;
  }
  print_slowdowns(out);
  fmt::print("\n{} cells are in {}\n", cells, out);
  if (result.failed == 0) return 0;
  std::fflush(stdout);
  print_text("umbench: {} of {} cells failed; their records in {} say why\n", result.failed, cells, out);
  return 1;
}

// The sweep's name and the cells of this shard.
std::pair<std::string, std::vector<cell>> read_cells(const sweep_options& options,
                                                     const std::vector<machine>& machines) {
  const process_limits within(options.spec, process_limits::max_reading_time);
  const sweep_spec spec = sweep_from_json(read_file(options.spec), options.spec, graph_of_trace);
  std::vector<cell> cells;
  for (cell& c : select_shard(expand(spec, options.spec, options.allow_native), options.shard)) {
    cells.push_back(with_machine(std::move(c), machines));
    cells.back().skips_observation = options.times_only;
  }
  return {spec.name, std::move(cells)};
}

}  // namespace

int sweep_command(const sweep_options& options) {
  const auto machines = load_machines_from(options.machines);
  auto [name, cells] = read_cells(options, machines);
  const bool simulated = are_all_simulated(cells);
  const std::size_t jobs = parse_jobs(options.jobs, simulated);
  if (options.list) return print_cells(cells);
  if (!options.like.empty()) find_machine(machines, options.like);
  if (options.times_only && simulated) {
    throw input_error("--times-only: nothing but times is measured in a simulated sweep; drop it");
  }
  if (options.dry_run) {
    // Simulates GPU cells instead, so that several can run at a time.
    return simulate_before_run(cells,
                               find_machine(machines, options.like.empty() ? standard_machine : options.like),
                               options.jobs.empty() ? usable_cores() : jobs);
  }

  signal_watch signals;
  const environment here = environment_for(cells, machines, options.like, signals);
  if (!options.no_preflight && !simulated && !preflight(cells, here.gpu.value(), signals)) {
    return 128 + signals.stop_signal().value_or(0);
  }
  const std::string out = options.out.empty() ? name + ".jsonl" : options.out;
  record_file file(out, options.resume ? open_mode::resume : open_mode::create);
  const sweep_result result = run_sweep(cells, {jobs, options.no_skip}, file, here, signals, stderr);
  return report_sweep_end(result, options, cells.size(), out);
}

int merge_command(const merge_options& options) {
  if (options.out == "-") throw input_error("--out -: records go into a file; name it, such as all.jsonl");
  std::error_code error;
  if (std::filesystem::is_regular_file(options.out, error) &&
      std::filesystem::file_size(options.out, error) > 0) {
    throw input_error(fmt::format("{}: exists already; choose another --out", one_line(options.out)));
  }
  std::vector<part> parts;
  std::string empty_ones;
  for (const std::string& path : options.parts) {
    const record_file file(path, open_mode::read);
    if (file.earlier().empty()) empty_ones += path + ": holds no record\n";
    parts.push_back(part_from_file(file));
  }
  const std::vector<file_entry> entries = merge_parts(std::move(parts));
  if (entries.empty()) throw input_error("the parts hold no record; there is nothing to merge");
  print_text("{}", empty_ones);
  std::string text;
  std::size_t records = 0;
  for (const file_entry& entry : entries) {
    text += std::visit([](const auto& e) { return to_json(e); }, entry) + "\n";
    records += std::holds_alternative<record>(entry);
  }
  write_file(options.out, text);
  fmt::print("{} cells of {} {} are in {}\n", records, options.parts.size(),
             options.parts.size() == 1 ? "part" : "parts", options.out);
  return 0;
}

}  // namespace um
