// Limits how long Unified Memory is counted, since each record that the driver writes slows the program.
#pragma once

#include <atomic>

#include "core/units.hpp"

namespace um::tracing {

// Counting may take a share of the time since the start, and a second more, so that short programs are
// counted whole. Beyond that it pauses until the budget allows a quarter of a second. One thread may spend
// while another asks.
class counting_budget {
 public:
  counting_budget(nanoseconds start, double share) : start_(start), share_(share) {}

  void spend(nanoseconds cost) { spent_ += cost; }
  // Whether to count from now on.
  bool may_count(nanoseconds now) {
    const auto allowed =
        initial_allowance + static_cast<nanoseconds>(share_ * static_cast<double>(now - start_));
    const nanoseconds left = allowed - spent_;
    counting_ = share_ >= 1 || left >= (counting_ ? 0 : resume_threshold);
    return counting_;
  }

 private:
  static constexpr nanoseconds initial_allowance = 1'000'000'000, resume_threshold = 250'000'000;
  nanoseconds start_;
  std::atomic<nanoseconds> spent_ = 0;  // time spent on counting
  double share_;
  bool counting_ = true;
};

}  // namespace um::tracing
