#include "backends/cuda/executor/graph_recorder.hpp"

#include <algorithm>
#include <chrono>

#include "backends/cuda/executor/lane_runner.hpp"

namespace um {

graph_recorder::graph_recorder(run_state& run, const step_issuer& steps)
    : run_(run),
      steps_(steps),
      fork_event_(make_event(event_use::ordering)),
      operators_(run.plan.steps.size()) {}

bool graph_recorder::record_operators() {
  bool all = true;
  const cudaStream_t on = run_.cuda_session.compute().stream;
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    if (run_.plan.steps[i].launch != launch_method::as_operator || operators_[i]) continue;
    operators_[i] = record_graph(on, run_.resources_of_steps[i].call);
    if (operators_[i]) {
      run_.resources_of_steps[i].call = [on, graph = operators_[i].get()] {
        check(cudaGraphLaunch(graph, on));
      };
    } else {
      all = false;
    }
  }
  return all;
}

bool graph_recorder::record_stretches() {
  stretch_cut_ = cut_into_stretches(run_.plan.steps);
  stretches_.clear();
  const cudaStream_t compute = run_.cuda_session.compute().stream;
  for (const index_range& s : stretch_cut_.stretches) {
    stretches_.push_back(record_graph(compute, [&] {
      for (std::uint32_t i = s.first; i <= s.last; ++i) {
        if (run_.plan.steps[i].in_lane == lane::compute) steps_.issue(i, compute, 1);
      }
    }));
    if (stretches_.back()) continue;
    stretches_.clear();
    return false;
  }
  return true;
}

launch_mode graph_recorder::launch_mode_of_stretches() const {
  const bool copies =
      std::ranges::any_of(run_.plan.steps, [](const step& s) { return s.in_lane != lane::compute; });
  return copies ? launch_mode::stretch_graphs : launch_mode::cuda_graph;
}

void graph_recorder::make_stream_wait(cudaStream_t waiting, cudaStream_t awaited) {
  check(cudaEventRecord(fork_event_.get(), awaited));
  check(cudaStreamWaitEvent(waiting, fork_event_.get()));
}

// Every lane starts after the compute lane's last iteration, and the compute lane ends after all others.
void graph_recorder::launch_iteration() {
  const cudaStream_t compute = run_.cuda_session.compute().stream;
  for (const lane_state& l : run_.lane_states) {
    if (l.stream != compute && !l.steps.empty()) make_stream_wait(l.stream, compute);
  }
  std::size_t next = 0;  // index of the next stretch
  for (std::uint32_t i = 0; i < run_.plan.steps.size(); ++i) {
    const lane where = run_.plan.steps[i].in_lane;
    const bool computes = where == lane::compute;
    if (computes && (next == stretches_.size() || stretch_cut_.stretches[next].first != i)) continue;
    const cudaStream_t mine = run_.lane_of(where).stream;
    for (const std::int32_t other : stretch_cut_.waits_for[i]) {
      if (other != no_step)
        check(cudaStreamWaitEvent(mine,
                                  run_.resources_of_steps[static_cast<std::size_t>(other)].done_event.get()));
    }
    std::uint32_t last = i;
    if (computes) {
      last = stretch_cut_.stretches[next].last;
      check(cudaGraphLaunch(stretches_[next++].get(), mine));
    } else {
      steps_.issue(i, mine, 1);
    }
    if (stretch_cut_.is_awaited[last])
      check(cudaEventRecord(run_.resources_of_steps[last].done_event.get(), mine));
  }
  for (const lane_state& l : run_.lane_states) {
    if (l.stream != compute && !l.steps.empty()) make_stream_wait(compute, l.stream);
  }
}

void graph_recorder::launch_iterations(std::uint32_t count, std::vector<trace>& traces) {
  const cudaStream_t on = run_.cuda_session.compute().stream;
  std::vector<cuda_event> marks;
  std::vector<moved_bytes> moved;
  for (std::uint32_t i = 0; i <= count; ++i) marks.push_back(make_event(event_use::timing));
  check(cudaEventRecord(marks[0].get(), on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    launch_iteration();
    check(cudaEventRecord(marks[i].get(), on));
    moved.push_back(run_.take_moved_bytes());
  }
  check(cudaStreamSynchronize(on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[i - 1].get(), marks[i].get()));
    const std::chrono::duration<double, std::milli> took(ms);
    traces.push_back(
        trace_of(run_, std::chrono::duration_cast<std::chrono::nanoseconds>(took), moved[i - 1], false));
  }
}

}  // namespace um
