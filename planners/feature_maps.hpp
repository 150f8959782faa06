// Activations that the backward pass reads (feature maps). A label for each, keep, swap or recompute, makes a
// plan.
#pragma once

#include <string>
#include <vector>

#include "schedule/fit_transfers.hpp"
#include "schedule/minimum_fit.hpp"

namespace um {

// An activation with more than one value per channel that both passes use.
struct feature_map {
  std::uint32_t gap = 0;  // between its last use in the forward pass and its first in the backward pass
  part_id part = 0;
  byte_count bytes = 0;
  bool is_recomputable = false;
  bool made_by_product = false;  // recomputing it runs a convolution or a fully connected layer
};

// When a swapped map returns: right before its use; as early in the backward pass as there is room; or as
// late as its copy still hides behind computes.
enum class return_moment : std::uint8_t { just_in_time, early, late };

// Turns labels, one per map, into decisions, a forecast and a plan. Operators run whole, in the graph's
// order.
class label_evaluator {
 public:
  explicit label_evaluator(const problem& p);

  // In the order in which operators write them.
  const std::vector<feature_map>& maps() const { return maps_; }
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }
  forecaster& costs() { return forecaster_; }
  bool can_move() const;

  // A recomputed map stays on the device after its first recomputation.
  std::vector<decision> decisions_for(const std::vector<gap_choice>& labels, return_moment when) const;
  // Every swap lasts as long as possible.
  minimum_need need_of(const std::vector<gap_choice>& labels) {
    return minimum_.need_of(decisions_for(labels, return_moment::just_in_time));
  }
  byte_count peak_of(const std::vector<gap_choice>& labels) { return need_of(labels).peak; }
  // Of the labels asked for last.
  position peak_position() { return minimum_.peak_position(); }

  struct outcome {
    prediction predicted;  // the forecast
    fit_result room;       // memory of the decisions
    std::vector<decision> decisions;
    std::vector<event> events;
  };
  // Fits the decisions into `room`. If they need more, only `room` and `decisions` of the outcome are set.
  outcome place(std::vector<decision> decisions, byte_count room);
  outcome place(const std::vector<gap_choice>& labels, return_moment when, byte_count room) {
    return place(decisions_for(labels, when), room);
  }
  memory_plan plan(const std::vector<decision>& decisions) const {
    return make_plan(p_.network, uses_, gaps_, decisions);
  }
  // The plan of an outcome that fits. Throws too_slow where its forecast takes clearly more than
  // problem::time_to_beat.
  memory_plan plan(const outcome& placed, const std::string& strategy) const;

  // Labels maps as kept, the last one first, as long as the labels need no more than `room`.
  void keep_latest_maps(std::vector<gap_choice>& labels, byte_count room);

 private:
  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  event_builder builder_;
  minimum_fitter minimum_;
  std::vector<feature_map> maps_;
};

// Message of infeasible: the memory that the strategy needs, and the budget.
std::string budget_too_small_text(const problem& p, const std::string& strategy, byte_count need);

}  // namespace um
