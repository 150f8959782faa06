// What the best plan chooses between, and what a choice comes to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// What may be decided for a gap. `held`: stays once it was computed again; `in_time`: not before its use.
enum class way : std::uint8_t { keep, swap, swap_in_time, again, again_held };

// Gaps of the parts of one tensor between the same two operators: they are decided alike.
struct gap_class {
  std::vector<std::uint32_t> gaps;
  byte_count bytes = 0;  // of its largest part
  bool again = false;
  nanoseconds time_again = 0, time_moving = 0;  // of all its gaps, on their own
};

struct evaluation {
  prediction said;
  byte_count excess = 0;  // bytes beyond the budget at the peak
  double over = 0;        // the same, summed over events
};

// An order of computes, what can be decided for it, and what decisions come to. Refers to the problem.
class choices {
 public:
  // `moves`: tensors may be swapped, if the machine has links.
  choices(const problem& p, std::vector<compute> order, bool moves);
  choices(const choices&) = delete;
  choices& operator=(const choices&) = delete;

  const std::vector<gap_class>& classes() const { return classes_; }
  bool moves() const { return moves_; }
  bool allows(std::size_t c, way how) const;
  nanoseconds computing() const { return computing_; }

  // What copies are taken to cost the operators beside them, which no simulation shows: a part of their time,
  // knob `copies` (percent), and a fixed time for each, knob `copy_us`. Part of evaluation::said.time. A copy
  // is placed so that it may take longer by three times as much.
  nanoseconds toll_of(const prediction& said) const;

  // All but the time and what is copied.
  evaluation memory_of(const std::vector<way>& ways, byte_count budget);
  // To what memory_of() said just now, the rest.
  void add_time(evaluation& e);
  // Of what memory_of() was asked for last: the compute at the peak. What is computed again there counts as
  // the compute that it is for.
  position peak() const;
  bool covers(std::size_t c, position at) const;

  std::vector<decision> decisions_for(const std::vector<way>& ways) const;
  memory_plan plan(const std::vector<way>& ways) const;
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }

 private:
  void find_classes();

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  std::vector<gap_class> classes_;
  event_builder builder_;
  forecaster forecast_;
  bool moves_ = false;
  nanoseconds computing_ = 0;
  std::span<const event> events_;
  std::uint32_t at_ = 0;  // the event at the peak
};

}  // namespace um
