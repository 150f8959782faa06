// The decisions that the search for the best plan chooses between, and their evaluation.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedule/change_evaluator.hpp"
#include "schedule/transfers.hpp"

namespace um {

// What may be decided for a gap. `recompute_and_keep`: stays once it was computed again; `swap_just_in_time`:
// leaves right after its last use and comes back not before the next. `swap_back_late`: comes back not before
// the next, but keeps its memory until its copy is over, so that nothing waits for it.
enum class treatment : std::uint8_t {
  keep,
  swap,
  swap_just_in_time,
  recompute,
  recompute_and_keep,
  swap_back_late
};

inline bool swaps(treatment how) {
  return how == treatment::swap || how == treatment::swap_just_in_time || how == treatment::swap_back_late;
}

// Gaps of the parts of one tensor between the same two operators: they are decided alike.
struct gap_class {
  std::vector<std::uint32_t> gaps;
  byte_count bytes = 0;                           // size of its largest part
  bool is_recomputable = false;                   // it can be recomputed
  nanoseconds recompute_time = 0, copy_time = 0;  // time to recompute, and to copy, all its gaps
};

// What copies are taken to cost the operators beside them, which no simulation shows: a part of their time,
// knob `copies` (percent), and a fixed time for each, knob `copy_us`.
nanoseconds copy_price(const problem& p, byte_count to_device, byte_count to_host, std::int64_t copies);

struct evaluation {
  // Its time with copy_price(); a copy is placed so that it may take three times that longer.
  prediction forecast;
  nanoseconds least_time = 0;  // lower bound on the forecast time
  bool timed = false;          // `forecast` has a time
  byte_count excess = 0;       // bytes beyond the budget at the peak
  double over = 0;             // bytes beyond the budget, summed over events
};

// An order of computes, what can be decided for it, and what decisions come to. Refers to the problem.
class search_space {
 public:
  // `may_swap`: tensors may be swapped, if the machine has links. `waits`: what forecasts assume.
  search_space(const problem& p, std::vector<compute> order, bool may_swap, memory_waits waits);
  search_space(const search_space&) = delete;
  search_space& operator=(const search_space&) = delete;

  const std::vector<gap_class>& classes() const { return classes_; }
  bool may_swap() const { return may_swap_; }
  bool allows(std::size_t c, treatment how) const;
  nanoseconds compute_time() const { return compute_time_; }
  // No decisions need less memory: the operands of the largest compute and, if nothing moves, what persists.
  byte_count least_memory() const { return least_memory_; }

  // All but the time and what is copied. Cheap where few decisions differ from the current ones.
  evaluation memory_of(const std::vector<treatment>& treatments, byte_count budget);
  // Adds the time and the bytes copied to what memory_of() just returned. A time above `most` is not exact:
  // it is some time above `most`.
  void add_time(evaluation& e, nanoseconds most = std::numeric_limits<nanoseconds>::max());
  // These decisions are the current ones from now on.
  void take(const std::vector<treatment>& treatments, byte_count budget);
  // Events and positions that were gone through so far: the measure of all limits, since it does not depend
  // on the machine that plans.
  std::uint64_t work() const { return work_; }
  // Of the current decisions: the compute at the peak. What is computed again there counts as the compute
  // that it is for.
  position peak() const { return evaluator_.list().peak_position(); }
  bool gap_spans(std::size_t c, position at) const;

  std::vector<decision> decisions_for(const std::vector<treatment>& treatments);
  memory_plan plan(const std::vector<treatment>& treatments);
  const problem& of_problem() const { return p_; }
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }

 private:
  void find_classes();
  void find_least_memory();
  decision decision_for(treatment how, std::uint32_t gap_index) const;
  bool differs_widely(const std::vector<treatment>& treatments) const;
  void start_with(const std::vector<treatment>& treatments);
  void return_to_current();
  void decide_for(const std::vector<treatment>& treatments);
  void note_swap(std::size_t c, treatment how);

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  std::vector<gap_class> classes_;
  event_builder builder_;
  forecaster forecast_;
  change_evaluator evaluator_;
  transfer_placer transfer_placer_;
  bool may_swap_ = false;
  nanoseconds compute_time_ = 0;
  byte_count least_memory_ = 0;
  std::vector<treatment> current_,
      evaluated_;                       // the current treatments; those that memory_of() evaluated last
  std::vector<decision> decisions_;     // that follow from `evaluated_`
  std::vector<swap_timing> timing_;     // per gap: how `evaluated_` swaps it
  std::vector<std::uint32_t> swaps_;    // per tensor: gaps in which `evaluated_` swaps it
  std::vector<bool> staged_;            // per tensor: `evaluated_` swaps it in some gap
  std::vector<std::uint32_t> changed_;  // gaps in which the two differ
  list_totals found_;                   // figures of `evaluated_`
  std::uint64_t work_ = 0;
};

// The decisions for treatments, with copies that wait for memory (fit_transfers) where decisions_for() holds
// it too long.
std::vector<decision> fitted_decisions(search_space& of, const std::vector<treatment>& treatments,
                                       byte_count budget);
// The time of decisions with copy_price(); nothing where they need more than the budget.
std::optional<nanoseconds> forecast_time(const search_space& of, const std::vector<decision>& decisions,
                                         byte_count budget);

// About how many computes there are if every gap is recomputed and nothing stays: chains of recomputations
// may make it many times the order (recurrent networks, deep ones in many parts).
std::uint64_t computes_if_all_recomputed(const use_table& uses, const std::vector<gap>& gaps);

}  // namespace um
