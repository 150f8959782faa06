// What the forward pass makes and the backward pass reads: one label each decides a plan.
#pragma once

#include <string>
#include <vector>

#include "schedule/fit_transfers.hpp"

namespace um {

// A tensor with more than one value a channel that crosses the loss.
struct feature_map {
  std::uint32_t gap = 0;  // between its last use in the forward pass and its first in the backward pass
  part_id part = 0;
  byte_count bytes = 0;
  bool again = false;           // it can be computed again
  bool of_convolution = false;  // made by a convolution or a fully connected layer, or from what they make
                                // and the backward pass does not read
};

// When what is swapped comes back: right before its use, as early as there is room in the backward pass, or
// as late as it still hides.
enum class arrival : std::uint8_t { just_in_time, early, late };

// Labels (one a map) to decisions, time and plan; operators whole and in the graph's order.
class labelling {
 public:
  explicit labelling(const problem& p);

  // In the order in which they are made.
  const std::vector<feature_map>& maps() const { return maps_; }
  const use_table& uses() const { return uses_; }
  const std::vector<gap>& gaps() const { return gaps_; }
  forecaster& costs() { return forecaster_; }
  bool can_move() const;

  // What labels decide. `again`: once it is back it stays.
  std::vector<decision> decisions_for(const std::vector<gap_choice>& labels, arrival when) const;
  // What labels need at least, everything swapped for as long as it can be.
  fit_result least_of(const std::vector<gap_choice>& labels);
  byte_count peak_of(const std::vector<gap_choice>& labels) { return least_of(labels).peak; }

  struct outcome {
    prediction predicted;  // the forecast
    fit_result room;
    std::vector<decision> decisions;
    std::vector<event> events;
  };
  // Within `room`; where they need more, `room` and `decisions` alone say something.
  outcome place(std::vector<decision> decisions, byte_count room);
  outcome place(const std::vector<gap_choice>& labels, arrival when, byte_count room) {
    return place(decisions_for(labels, when), room);
  }
  memory_plan plan(const std::vector<decision>& decisions) const {
    return make_plan(p_.network, uses_, gaps_, decisions);
  }

  // Keeps maps, the last made first, as long as the labels need no more than `room`.
  void keep_latest(std::vector<gap_choice>& labels, byte_count room);

 private:
  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  event_builder builder_;
  std::vector<feature_map> maps_;
};

// One line for infeasible: what a strategy needs and cannot have.
std::string too_small(const problem& p, const std::string& strategy, byte_count need);

}  // namespace um
