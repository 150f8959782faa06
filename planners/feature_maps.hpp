// Feature maps: activations that the backward pass reads. A label for each (keep, swap or recompute)
// determines a plan.
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
  bool is_product_output = false;  // recomputing it runs a convolution or a fully connected layer
};

// When a swapped map returns. `just_in_time`: right before its use. `early`: as early in the backward pass as
// there is room. `late`: as late as its copy delays nothing.
enum class return_timing : std::uint8_t { just_in_time, early, late };

// Turns labels, one per map, into decisions, a forecast and a plan. Operators run whole, in the graph's
// order.
class label_evaluator {
 public:
  explicit label_evaluator(const problem& p);

  // All feature maps, in the order in which operators write them.
  const std::vector<feature_map>& maps() const { return maps_; }
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }
  forecaster& costs() { return forecaster_; }
  bool has_link_to_host() const;

  // A recomputed map stays on the device after its first recomputation.
  std::vector<decision> decisions_for(const std::vector<gap_choice>& labels, return_timing when) const;
  // Minimum memory of the labels: every swap lasts as long as possible.
  decisions_minimum minimum_for(const std::vector<gap_choice>& labels) {
    return minimum_.minimum_for(decisions_for(labels, return_timing::just_in_time));
  }
  byte_count peak_of(const std::vector<gap_choice>& labels) { return minimum_for(labels).peak; }
  // Position of the peak of the last minimum_for().
  position peak_position() { return minimum_.peak_position(); }

  struct outcome {
    prediction predicted;  // the forecast
    fit_result fit;        // memory of the decisions and their transfers
    std::vector<decision> decisions;
    std::vector<event> events;
  };
  // Fits the decisions into `room`. If they need more, only `fit` and `decisions` of the outcome are set.
  outcome place(std::vector<decision> decisions, byte_count room);
  outcome place(const std::vector<gap_choice>& labels, return_timing when, byte_count room) {
    return place(decisions_for(labels, when), room);
  }
  memory_plan plan(const std::vector<decision>& decisions) const {
    return make_plan(p_.network, uses_, gaps_, decisions);
  }
  // The plan of an outcome that fits. Throws too_slow if its forecast exceeds problem::time_to_beat by more
  // than the forecast's error.
  memory_plan plan(const outcome& placed, const std::string& strategy) const;

  // Keeps maps, the last one first, as long as the memory stays within `room`.
  void keep_latest_maps(std::vector<gap_choice>& labels, byte_count room);

 private:
  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  event_builder builder_;
  decisions_minimum_finder minimum_;
  std::vector<feature_map> maps_;
};

// Message of infeasible: the memory that the strategy needs, and the budget.
std::string budget_too_small_text(const problem& p, const std::string& strategy, byte_count need);

}  // namespace um
