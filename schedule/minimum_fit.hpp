// The minimum memory that given decisions need. Gives the result of fit_transfers() for a budget of 0, but
// faster if few decisions differ from those of the previous call.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "schedule/change_evaluator.hpp"

namespace um {

struct decisions_minimum {
  byte_count peak = 0;             // peak with every swapped part on the device as briefly as possible
  nanoseconds recompute_time = 0;  // time of all recomputations
};

// Keeps references. No other object may use the forecaster during a call.
class decisions_minimum_finder {
 public:
  decisions_minimum_finder(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                           forecaster& costs)
      : g_(g), uses_(uses), gaps_(gaps), costs_(costs) {}

  decisions_minimum minimum_for(std::vector<decision> decisions);
  // The first position at the peak of the last minimum_for().
  position peak_position();

 private:
  // The events of one attempt to let parts return early enough. The attempts of one call differ in many
  // returns; the same attempt of two calls differs in few.
  struct attempt {
    attempt(const graph& g, const use_table& uses, const std::vector<gap>& gaps, forecaster& costs)
        : builder(g, uses, gaps), evaluator(uses, gaps, builder, costs) {}
    event_builder builder;
    change_evaluator evaluator;
    std::vector<decision> decisions;
    std::vector<bool> staged_tensors;
    std::vector<std::uint32_t> changed;  // indices of gaps whose decisions changed
  };
  attempt& attempt_at(std::size_t i);
  void evaluate(attempt& by, const std::vector<decision>& decisions) const;
  bool return_for_earlier_readers(const attempt& by, std::vector<decision>& decisions);

  const graph& g_;
  const use_table& uses_;
  const std::vector<gap>& gaps_;
  forecaster& costs_;
  std::list<attempt> attempts_;      // a list, since evaluators refer to builders
  attempt* last_attempt_ = nullptr;  // of the last minimum_for()
  std::vector<bool> is_fetched_;     // scratch: per part
};

}  // namespace um
