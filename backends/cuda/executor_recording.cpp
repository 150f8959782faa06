// Iterations of which the operators were recorded, put on the streams by one thread.
#include <algorithm>

#include "backends/cuda/executor.hpp"

namespace um {

// False, and nothing kept, if some stretch cannot be recorded.
bool executor::record_stretches() {
  order_ = launch_order_of(plan_.steps);
  const cudaStream_t compute = on_.compute().stream;
  for (const stretch& of : order_.stretches) {
    recorded_.push_back(record(compute, [&] {
      for (std::uint32_t i = of.first; i <= of.last; ++i) {
        if (plan_.steps[i].where == lane::compute) issue(plan_.steps[i], work_[i], compute, 1);
      }
    }));
    if (recorded_.back()) continue;
    recorded_.clear();
    return false;
  }
  return true;
}

launch_way executor::way_of_stretches() const {
  const bool copies =
      std::ranges::any_of(plan_.steps, [](const step& s) { return s.where != lane::compute; });
  return copies ? launch_way::stretch_graphs : launch_way::cuda_graph;
}

// Every lane begins behind what the compute lane has done, which ends behind all of them.
void executor::launch_iteration() {
  const cudaStream_t compute = on_.compute().stream;
  const auto let_wait = [this](cudaStream_t waiting, cudaStream_t awaited) {
    check(cudaEventRecord(fork_.get(), awaited));
    check(cudaStreamWaitEvent(waiting, fork_.get()));
  };
  for (const lane_work& l : lanes_) {
    if (l.stream != compute && !l.steps.empty()) let_wait(l.stream, compute);
  }
  std::size_t next = 0;  // stretch
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
    const step& s = plan_.steps[i];
    const bool computes = s.where == lane::compute;
    if (computes && (next == recorded_.size() || order_.stretches[next].first != i)) continue;
    const cudaStream_t mine = lanes_[static_cast<std::size_t>(s.where)].stream;
    for (const std::int32_t other : order_.after[i]) {
      if (other == no_step) continue;
      check(cudaStreamWaitEvent(mine, work_[static_cast<std::size_t>(other)].done.get()));
    }
    std::uint32_t last = i;
    if (computes) {
      last = order_.stretches[next].last;
      check(cudaGraphLaunch(recorded_[next++].get(), mine));
    } else {
      issue(s, work_[i], mine, 1);
    }
    if (order_.awaited[last]) check(cudaEventRecord(work_[last].done.get(), mine));
  }
  for (const lane_work& l : lanes_) {
    if (l.stream != compute && !l.steps.empty()) let_wait(compute, l.stream);
  }
}

// One behind the other, so that no launch waits for the end of the one before; times are the device's.
void executor::launch_iterations(std::uint32_t count, std::vector<trace>& traces) {
  const cudaStream_t on = on_.compute().stream;
  std::vector<event> marks;
  std::vector<moved_bytes> moved;
  for (std::uint32_t i = 0; i <= count; ++i) marks.push_back(make_event(event_use::timing));
  check(cudaEventRecord(marks[0].get(), on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    launch_iteration();
    check(cudaEventRecord(marks[i].get(), on));
    moved.push_back(take_moved());
  }
  check(cudaStreamSynchronize(on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[i - 1].get(), marks[i].get()));
    const std::chrono::duration<double, std::milli> took(ms);
    traces.push_back(
        trace_of(std::chrono::duration_cast<std::chrono::nanoseconds>(took), moved[i - 1], false));
  }
}

}  // namespace um
