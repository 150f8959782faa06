// The search for the best decisions of one order of computes.
#pragma once

#include "planners/best_choices.hpp"

namespace um {

struct settled {
  std::vector<way> ways;
  evaluation is;  // over 0: they fit the budget
};

// Decisions with as little time as a search finds that tries so many for each class. Equal arguments give
// equal decisions.
settled settle(choices& of, byte_count budget, std::size_t tries_for_each);
// The same from decisions for another budget.
settled settle_again(choices& of, byte_count budget, std::size_t tries_for_each, const settled& from);

}  // namespace um
