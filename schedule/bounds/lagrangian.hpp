// The Lagrangian of the whole-operator program at given prices (README.md, "Whole operators").
#pragma once

#include <vector>

#include "schedule/bounds/value_choice.hpp"

namespace um::whole {

class lagrangian {
 public:
  // Keeps a reference to the model.
  lagrangian(const model& m, allowed_moves allowed);

  // The minimum of the Lagrangian over all plans: a lower bound, as a fraction of the operators' time.
  double evaluate(const prices& x);
  // A subgradient at the last prices: demand minus supply of bytes and lane time in the minimum.
  const prices& subgradient() const { return excess_; }

 private:
  bool is_recomputed(const value& v, const std::vector<bool>& chosen) const;
  void add_excess(const std::vector<bool>& chosen);
  void add_excess(const value& v, const value_choice& c, std::vector<double>& change);

  const model& model_;
  allowed_moves allowed_;  // whether plans may swap; whether they may recompute
  price_index prices_;
  value_costs costs_;
  std::vector<value_choice> choices_without_recompute_,
      choices_with_recompute_;  // per value: without and with recomputation
  prices excess_;
};

}  // namespace um::whole
