#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/say.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/process/collect.hpp"
#include "harness/process/gpu.hpp"

namespace um {
namespace {

int device_number(const std::string& backend) {
  const backend_name asked = parse_backend(backend.empty() ? "cuda:0" : backend);
  if (!asked.is_simulated) return asked.device;
  throw input_error(fmt::format("--backend {}: only a GPU can be measured; use cuda:N", backend));
}

// Throws input_error if the folder of the file is missing, before the measurements start.
void require_folder_of(const char* option, const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    throw input_error(fmt::format("{} {}: there is no folder {}", option, file, folder.string()));
  }
}

// Prints what is being measured and the time since the start.
class progress_lines {
 public:
  void operator()(std::string_view step) const {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
    print_text("{:6.1f} s  {}\n", since.count(), step);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The source text of a new machine file: how it was measured, and which machine file supplied the other
// figures.
std::string describe_measurement(const environment& here, const std::string& rest_from) {
  const gpu_facts& gpu = *here.gpu;
  return fmt::format(
      "Measured by umbench calibrate ({}) on one {}, driver {}, CUDA {}, {}, {}. Of the figures under "
      "estimated, "
      "evict_ns follows from others; the rest were not measured and are those of machine file {}.",
      here.umbench, gpu.name, gpu.driver.value_or("unknown"), gpu.cuda_runtime,
      here.host.kernel.value_or("unknown kernel"), here.created.substr(0, 10), rest_from);
}

void print_calibration(const measure::figures& found) {
  fmt::print("{:<34} {:>18} {:>10}\n", "figure", "value", "spread");
  for (const auto& [name, s] : found.spread_of_figure) {
    const double reach = s.typical > 0 ? (s.max - s.min) / s.typical * 100 : 0;
    fmt::print("{:<34} {:>18.0f} {:>8.1f} %\n", name, s.typical, reach);
  }
  for (const std::string& note : found.notes) fmt::print("note: {}\n", note);
}

machine with_machine_name(machine m, std::string name) {
  m.name = std::move(name);
  return m;
}

// The machine that supplies the figures that are not measured.
const machine& base_machine_for(const std::string& gpu, const std::vector<machine>& machines,
                                const std::string& like) {
  if (!like.empty()) return find_machine(machines, like);
  if (const machine* akin = find_machine_like(machines, gpu)) return *akin;
  throw input_error(fmt::format(
      "there is no machine file of {}; name one by --like whose figures stand for what is not measured",
      gpu));
}

// Makes the machine file from samples of an earlier calibration. The machine that --like names supplies host
// and source.
int calibrate_from_samples(const calibrate_options& o, const std::vector<machine>& machines,
                           const std::string& name) {
  if (o.like.empty())
    throw input_error("--from needs --like: the machine file that was calibrated with these samples");
  const machine& base = find_machine(machines, o.like);
  measure::calibration found;
  found.raw_readings = readings_from_json(read_file(o.from), o.from);
  found.results = measure::figures_from(found.raw_readings, base.uvm);
  for (const auto& [reading, values] : found.raw_readings)
    found.samples[reading] = measure::spread_of(values);
  const auto bytes = static_cast<double>(base.host_bytes);
  found.results.spread_of_figure["host_bytes"] = {1, bytes, bytes, bytes};
  machine made = with_measured_figures(with_machine_name(base, name), found.results);
  made.operators = base.operators;
  write_file(o.out, to_json(made, found));
  print_calibration(found.results);
  return 0;
}

}  // namespace

int calibrate_command(const calibrate_options& o) {
  const int device = device_number(o.backend);
  const auto machines = load_machines_from(o.machines);
  machine made = find_machine(machines, o.like.empty() ? standard_machine : o.like);
  const std::string name = o.name.empty() ? std::filesystem::path(o.out).stem().string() : o.name;
  machine_from_json(to_json(with_machine_name(made, name)),
                    "--name " + name);  // throws for an invalid machine name
  require_folder_of("--out", o.out);
  require_folder_of("--samples", o.samples);
  check_output_file("--out", o.out);
  check_output_file("--samples", o.samples, std::span(&o.out, 1));
  if (!o.from.empty()) return calibrate_from_samples(o, machines, name);
  try {
    const environment here = collect_environment(probe_gpu(device));
    const machine& base = base_machine_for(here.gpu->name, machines, o.like);
    measure::calibration found = calibrate_gpu(device, base.uvm, progress_lines());
    if (here.host.memory_bytes) {
      const auto bytes = static_cast<double>(*here.host.memory_bytes);
      found.results.spread_of_figure["host_bytes"] = {1, bytes, bytes, bytes};
    }
    made = with_measured_figures(with_machine_name(base, name), found.results);
    made.calibrated = true;
    made.source = describe_measurement(here, base.name);
    write_file(o.out, to_json(made, found));
    if (!o.samples.empty()) write_file(o.samples, to_json(found.raw_readings));
    print_calibration(found.results);
  } catch (const unsupported& reason) {
    throw input_error(reason.what());
  }
  return 0;
}

}  // namespace um
