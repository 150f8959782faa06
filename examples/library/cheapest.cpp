// A planner of one's own beside umbench's, on a machine of one's own: what an iteration of VGG-16 takes with half of the
// memory that it needs.
#include <cstdio>
#include <exception>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "networks/catalogue.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"

// Rates per second, sizes in bytes, fixed costs in nanoseconds.
um::machine some_gpu() {
  um::machine m;
  m.name = "some GPU";
  m.device_bytes = 16 * um::GiB;
  m.host_bytes = 64 * um::GiB;
  m.multiprocessors = 80;
  m.fp32_flops_per_s = 14'000'000'000'000;
  m.device_bytes_per_s = 800'000'000'000;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = 12'000'000'000;
  m.link_both_bytes_per_s = 20'000'000'000;
  m.launch_ns = 3'000;
  m.copy_ns = 5'000;
  return m;
}

// A quarter of the batch after the other, whatever the budget: a plan is a function of a problem.
um::memory_plan quarters(const um::problem& p) {
  um::problem mine = p;
  mine.knobs = {{"k", 4}};
  return um::plan_micro_batches(mine);
}

// Proven, placed and simulated; the second iteration, which is as all later ones.
double milliseconds(const um::problem& p, const um::memory_plan& plan) {
  return static_cast<double>(um::simulate(p, um::lower(p, plan), 2).back().duration) / 1e6;
}

int main() try {
  um::network_spec what;
  what.name = "vgg16";
  what.batch = 128;
  const um::graph network = um::build_network(what);
  const um::machine on = some_gpu();
  const um::profile costs = um::estimate(network, on);
  const um::byte_count needed = um::footprint_of(network, costs).total;
  std::printf("vgg16 of batch 128 needs %s\n", um::to_text(needed).c_str());

  um::problem p{network, costs, on, needed / 2};
  std::printf("%-14s %8.1f ms\n", "quarters", milliseconds(p, quarters(p)));
  for (const um::strategy& s : um::planners()) {
    if (s.name == "tvdnn_ilp") continue;  // takes a while
    p.knobs = um::complete_knobs(s, {});
    try {
      std::printf("%-14s %8.1f ms\n", s.name.c_str(), milliseconds(p, s.plan(p)));
    } catch (const um::infeasible& why) {
      std::printf("%-14s %s\n", s.name.c_str(), why.what());
    }
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
