// Records and experiments for the tests; their figures mean nothing.
#pragma once

#include "harness/study/record.hpp"

namespace um {

inline experiment sample_experiment() {
  experiment e;
  e.network = {.name = "alexnet", .batch = 2};
  e.strategy = "managed";
  e.ratio = 1.5;
  e.backend = "sim:h200";
  return e;
}

inline cell sample_cell() {
  return complete_cell(sample_experiment());
}

inline record sample_record() {
  experiment e = sample_experiment();
  e.network.fusion_mode = fusion::lean;
  e.network.arithmetic = precision::bf16;
  e.network.order = memory_order::nchw;
  e.backend = "cuda:0";
  record r = make_record(complete_cell(e));
  r.device = "h200";
  r.samples = {300, 100, 120, 110};
  r.first.emplace().faults = 7;
  r.last.emplace().fault_to_device_bytes = 1234;
  r.counters_reason = "made up";
  r.gpu_and_host.before.emplace().sm_clock_mhz = 1980;
  r.gpu_and_host.after = gpu_state{1755, 3201, 60, 690000, 5, 16, 0, {{"sw_power_cap"}}};
  r.gpu_and_host.host_cpu = 7000;
  r.gpu_and_host.energy_uj = 123456;
  r.gpu_and_host.missing_reason = "made up";
  r.memory.footprint = footprint_terms{1, 2, 3, 4, 5, 6, 7, 28};
  r.memory.budget = 18;
  r.memory.device_arena = 9;
  r.planner_machine = "h200";
  r.planner_machine_digest = "00112233445566aa";
  r.borrowed_figures = {"slice_ns"};
  r.planning_time = 42;
  r.compute_time = 99;
  r.digest = 0x0123456789abcdef;
  r.loss = 6.9;
  r.calibrated = false;
  r.launch = launch_mode::cuda_graph;
  r.engines = {{"conv1", "eng5", 50, 60, 1000, 100, 4}};
  r.timeline = timeline_figures{3, {{lane::to_host, "evict x", 5, 9}}, {{5, 4096}}};
  return r;
}

}  // namespace um
