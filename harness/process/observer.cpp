#include "harness/process/observer.hpp"

#include <sys/resource.h>

#include <utility>

namespace um {
namespace {

nanoseconds host_cpu_now() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return nanoseconds{t.tv_sec} * 1'000'000'000 + nanoseconds{t.tv_usec} * 1'000;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

}  // namespace

observer::observer(std::uint32_t iterations, std::optional<nvml> gpu, std::string why_not)
    : iterations_(iterations), gpu_(std::move(gpu)), why_not_(std::move(why_not)) {}

observer::energy_mark observer::take_mark(std::uint32_t done) const {
  return {done, host_cpu_now(), gpu_ ? gpu_->energy_mj() : std::nullopt};
}

// It is called twice with the number of the last timed iteration: when it has ended, and when the untimed
// ones begin.
void observer::watch(std::uint32_t done) {
  if (done == 0 && gpu_) before_ = gpu_->state();
  if (done < iterations_) return;
  if (gpu_ && !after_) after_ = gpu_->state();
  (done > iterations_ ? end_ : begin_) = take_mark(done);
}

observation observer::result() const {
  observation seen{before_, after_, {}, {}, {}};
  if (!gpu_) seen.missing_reason = why_not_;
  if (!begin_ || !end_) {
    seen.missing_reason = "no iterations followed the timed ones";
    return seen;
  }
  const std::uint32_t count = end_->done - begin_->done;
  seen.host_cpu = (end_->host_cpu - begin_->host_cpu) / count;
  if (!gpu_) return seen;
  if (!begin_->energy_mj || !end_->energy_mj) {
    seen.missing_reason = "the GPU does not tell its energy";
  } else if (*end_->energy_mj <= *begin_->energy_mj) {
    seen.missing_reason = "the GPU's energy counter stood still";
  } else {
    seen.energy_uj = (*end_->energy_mj - *begin_->energy_mj) * 1000 / count;
  }
  return seen;
}

}  // namespace um
