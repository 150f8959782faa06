// One iteration put on the streams by one thread, to be recorded; and launches of the recording.
#include "backends/cuda/executor.hpp"

namespace um {

// Every lane forks from the compute lane and joins it again, as a recording must.
void executor::issue_in_list_order() {
  const cudaStream_t compute = on_.compute().stream;
  const auto let_wait = [this](cudaStream_t waiting, cudaStream_t awaited) {
    check(cudaEventRecord(fork_.get(), awaited));
    check(cudaStreamWaitEvent(waiting, fork_.get()));
  };
  for (const lane_work& l : lanes_) {
    if (l.stream != compute && !l.steps.empty()) let_wait(l.stream, compute);
  }
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
    const step& s = plan_.steps[i];
    const cudaStream_t mine = lanes_[static_cast<std::size_t>(s.where)].stream;
    for (std::size_t other = 0; other < lane_count; ++other) {
      if (s.after[other] == no_step || other == static_cast<std::size_t>(s.where)) continue;
      check(cudaStreamWaitEvent(mine, work_[static_cast<std::size_t>(s.after[other])].done.get()));
    }
    issue(s, work_[i], mine, 1);
    if (work_[i].done) check(cudaEventRecord(work_[i].done.get(), mine));
  }
  for (const lane_work& l : lanes_) {
    if (l.stream != compute && !l.steps.empty()) let_wait(compute, l.stream);
  }
}

// One behind the other, so that no launch waits for the end of the one before; times are the device's.
void executor::launch_iterations(const recording& all, std::uint32_t count, std::vector<trace>& traces) {
  const cudaStream_t on = on_.compute().stream;
  std::vector<event> marks;
  for (std::uint32_t i = 0; i <= count; ++i) marks.push_back(make_event(event_use::timing));
  check(cudaEventRecord(marks[0].get(), on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    check(cudaGraphLaunch(all.get(), on));
    check(cudaEventRecord(marks[i].get(), on));
  }
  check(cudaStreamSynchronize(on));
  for (std::uint32_t i = 1; i <= count; ++i) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[i - 1].get(), marks[i].get()));
    const std::chrono::duration<double, std::milli> took(ms);
    traces.push_back(
        trace_of(std::chrono::duration_cast<std::chrono::nanoseconds>(took), moved_by_recording_, false));
  }
}

}  // namespace um
