// The Lagrangian of the whole-operator program at given prices (README.md, "Whole operators").
#pragma once

#include <vector>

#include "schedule/bounds/value_choice.hpp"

namespace um::whole {

class lagrangian {
 public:
  // Keeps the reference.
  lagrangian(const model& m, allowed what);

  // The minimum over all plans at these prices: a bound, in parts of the operators' time.
  double at(const prices& x);
  // A subgradient of it at the last prices: what the minimum uses beyond what there is.
  const prices& subgradient() const { return excess_; }

 private:
  bool recomputes(const value& v, const std::vector<bool>& chosen) const;
  void add_excess(const std::vector<bool>& chosen);
  void add_excess(const value& v, const value_choice& c, std::vector<double>& change);

  const model& m_;
  allowed what_;  // whether plans may swap, and may recompute
  price_index index_;
  value_costs costs_;
  std::vector<value_choice> without_, with_;  // per value: without and with recomputation
  prices excess_;
};

}  // namespace um::whole
