// The search spaces of splits that are searched in turn.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "planners/best_space.hpp"
#include "planners/best_splits.hpp"

namespace um {

// Keeps spaces of small orders, since making one takes as long as hundreds of evaluations.
class split_spaces {
 public:
  split_spaces(const problem& p, std::span<const batch_split> splits)
      : p_(p), splits_(splits), spaces_(splits.size()) {}

  // As if it were new whenever another split was asked for in between. Valid until the next call.
  search_space& of(std::size_t split) {
    if (split == current_) return *spaces_[split];
    if (spaces_[split]) {
      spaces_[split]->forget();
    } else {
      make(split);
    }
    current_ = split;
    return *spaces_[split];
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  // A search space takes about 3 kB for each compute action. It is kept if its order and all kept orders
  // together have no more computes than these.
  static constexpr std::size_t max_computes_per_space = 2000, max_computes_kept = 24'000;

  void make(std::size_t split) {
    const batch_split& x = splits_[split];
    std::vector<compute> order = make_order(p_.network, x.loops);
    computes_ += order.size();
    if (order.size() > max_computes_per_space || computes_ > max_computes_kept) {
      for (auto& kept : spaces_) kept.reset();
      computes_ = order.size() > max_computes_per_space ? max_computes_kept : order.size();
    }
    spaces_[split] = std::make_unique<search_space>(p_, std::move(order), x.may_swap, x.waits);
  }

  const problem& p_;
  std::span<const batch_split> splits_;
  std::vector<std::unique_ptr<search_space>> spaces_;  // per split
  std::size_t computes_ = 0;                           // of all spaces
  std::size_t current_ = none;
};

}  // namespace um
