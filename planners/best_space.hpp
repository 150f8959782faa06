// The decisions among which the search for the best plan chooses, and their evaluation.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedule/change_evaluator.hpp"
#include "schedule/swap_fitter.hpp"
#include "schedule/transfers.hpp"

namespace um {

// Maximum number of operators of a network that is searched for every rung of a fine ladder, with both values
// of memory_waits, and by the time of placed plans, if is_tiny() holds, too. In larger networks each of these
// would get too little work.
inline constexpr std::size_t tiny_network = 48;
// Maximum number of operators of a network that is searched for the whole ladder at every ratio, with twice
// as many quick tries, and whose swaps are fitted to recomputations and the budget.
inline constexpr std::size_t few_operators = 64;

// What happens to a part during a gap. `swap`: leaves and returns early enough to delay nothing; if
// swaps are fitted, returns later and leaves earlier where the budget is exceeded.
// `swap_just_in_time`: leaves right after its last use and returns right before its next one.
// `swap_back_late`: keeps its memory until its copy out has ended, so that nothing waits for it, and returns
// right before its next use. `recompute_and_keep`: stays on the device after its first recomputation.
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

// Gaps of the parts of one tensor between the same two operators. They all get the same treatment.
struct gap_class {
  std::vector<std::uint32_t> gaps;
  byte_count bytes = 0;                           // size of its largest part
  bool is_recomputable = false;                   // all its gaps can end with a recomputation
  nanoseconds recompute_time = 0, copy_time = 0;  // time to recompute, or to copy, the parts of all its gaps
};

// Assumed cost of copies for the operators that run beside them, which no simulation includes: a percentage
// of the copies' time (knob `copies`) and a fixed time for each copy (knob `copy_us`).
nanoseconds copy_price(const problem& p, byte_count to_device, byte_count to_host, std::int64_t copies);

struct evaluation {
  // Its time includes copy_price(). Copies are placed so that each may be late by three times its price.
  prediction forecast;
  nanoseconds min_time = 0;    // lower bound on the forecast time
  bool has_time = false;       // `forecast` includes the time
  byte_count peak_excess = 0;  // bytes beyond the budget at the peak
  double excess = 0;           // bytes beyond the budget, summed over events
};

// An order of computes, its gap classes, and the evaluation of decisions for them. Keeps a reference to the
// problem.
class search_space {
 public:
  // `may_swap`: tensors may be swapped, if the machine has a link to the host. `waits`: the waits that
  // forecasts assume.
  search_space(const problem& p, std::vector<compute> order, bool may_swap, memory_waits waits);
  search_space(const search_space&) = delete;
  search_space& operator=(const search_space&) = delete;

  // From now on as if it were new, but for work().
  void forget() {
    current_.clear();
    evaluated_.clear();
  }
  forecaster& costs() { return forecast_; }  // call forget() after a change

  const std::vector<gap_class>& classes() const { return classes_; }
  bool may_swap() const { return may_swap_; }
  bool allows(std::size_t c, treatment how) const;
  nanoseconds compute_time() const { return compute_time_; }
  // Lower bound on the memory of all decisions: operands of the largest compute and what nothing can free.
  byte_count min_memory() const { return min_memory_; }
  bool decides_by_budget() const { return swap_fitter_.has_value(); }  // for the same treatments

  // Evaluates memory; leaves time and copied bytes out. Takes little work if few decisions differ from the
  // current ones. A list that is too long (chains of recomputations) exceeds any budget without limit.
  evaluation memory_of(const std::vector<treatment>& treatments, byte_count budget);
  // Adds the time and the bytes copied to the result of the last memory_of(). A time above `max_time` is not
  // exact.
  void add_time(evaluation& e, nanoseconds max_time = std::numeric_limits<nanoseconds>::max());
  // Makes these decisions the current ones.
  void make_current(const std::vector<treatment>& treatments, byte_count budget);
  // Number of events and positions visited so far. Limits of searches count it, since it does not depend on
  // the speed of the machine that plans.
  std::uint64_t work() const { return work_; }
  // Position of the peak of the current decisions. Recomputations count as the compute that needs them.
  position peak_position() const { return evaluator_.list().peak_position(); }
  bool spans_position(std::size_t c, position at) const;

  // The decisions that memory_of() evaluates for the same arguments.
  std::vector<decision> decisions_for(const std::vector<treatment>& treatments, byte_count budget);
  memory_plan plan(const std::vector<decision>& decisions) const;
  const problem& of_problem() const { return p_; }
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }

 private:
  decision decision_for(treatment how, std::uint32_t gap_index) const;
  bool differs_widely(const std::vector<treatment>& treatments) const;
  void restart_from(const std::vector<treatment>& treatments);
  void undo_evaluated();
  void apply_treatments(const std::vector<treatment>& treatments);
  void update_swap_timing(std::size_t c, treatment how);
  void place_swaps();
  void record_changed_swaps();

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  std::vector<gap_class> classes_;
  event_builder builder_;
  forecaster forecast_;
  change_evaluator evaluator_;
  transfer_placer transfer_placer_;
  std::optional<swap_fitter> swap_fitter_;  // if swaps are fitted to recomputations and the budget
  bool may_swap_ = false;
  nanoseconds compute_time_ = 0;
  byte_count min_memory_ = 0;
  std::vector<treatment> current_, evaluated_;  // evaluated_: those that memory_of() evaluated last
  std::vector<decision> decisions_;             // decisions that follow from `evaluated_`
  std::vector<swap_timing> timing_;             // per gap: how `evaluated_` swaps it
  std::vector<std::uint32_t> swap_counts_;      // per tensor: number of gaps in which `evaluated_` swaps it
  std::vector<bool> staged_tensors_;            // per tensor: `evaluated_` swaps it in some gap
  std::vector<std::uint32_t>
      changed_gaps_;    // gaps whose decisions differ between `evaluated_` and `current_`
  list_totals totals_;  // totals of `evaluated_`
  std::uint64_t work_ = 0;
};

// The time of decisions, including copy_price(); nothing if they need more than the budget.
std::optional<nanoseconds> forecast_time(const search_space& of, const std::vector<decision>& decisions,
                                         byte_count budget);

// Estimate of the number of computes if every gap is recomputed and nothing stays. Chains of recomputations
// may make it many times the length of the order (recurrent networks, deep networks in many parts).
std::uint64_t computes_if_all_recomputed(const use_table& uses, const std::vector<gap>& gaps);

}  // namespace um
