// What decisions need at least: as fit_transfers() for no room, faster where few differ from those asked
// before.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "schedule/change_evaluator.hpp"

namespace um {

struct minimum_need {
  byte_count peak = 0;             // with every swapped part on the device as briefly as possible
  nanoseconds recompute_time = 0;  // time of all recomputations
};

// Keeps references. No other object may use the forecaster during a call.
class minimum_fitter {
 public:
  minimum_fitter(const graph& g, const use_table& uses, const std::vector<gap>& gaps, forecaster& costs)
      : g_(g), uses_(uses), gaps_(gaps), costs_(costs) {}

  minimum_need need_of(std::vector<decision> decisions);
  // Of the decisions asked for last: the first position at the peak.
  position peak_position();

 private:
  // The list of events of one attempt to let parts return in time. The attempts of one call differ by many
  // returns; the same attempt of two calls differs by few.
  struct attempt {
    attempt(const graph& g, const use_table& uses, const std::vector<gap>& gaps, forecaster& costs)
        : builder(g, uses, gaps), evaluator(uses, gaps, builder, costs) {}
    event_builder builder;
    change_evaluator evaluator;
    std::vector<decision> decisions;
    std::vector<bool> staged;
    std::vector<std::uint32_t> changed;  // gaps
  };
  attempt& attempt_at(std::size_t i);
  void evaluate(attempt& by, const std::vector<decision>& decisions) const;
  bool return_for_earlier_readers(const attempt& by, std::vector<decision>& decisions);

  const graph& g_;
  const use_table& uses_;
  const std::vector<gap>& gaps_;
  forecaster& costs_;
  std::list<attempt> attempts_;  // their evaluators refer to their builders
  attempt* last_ = nullptr;      // of the last need_of()
  std::vector<bool> fetched_;    // scratch: per part
};

}  // namespace um
