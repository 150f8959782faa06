// Random changes of decisions for simulated annealing.
#pragma once

#include <array>
#include <map>
#include <random>
#include <vector>

#include "planners/best_space.hpp"

namespace um {

// Treatments that annealing draws. swap_back_late is not drawn; local search tries it at the end in place of
// other swaps.
inline constexpr std::array drawn_treatments{treatment::keep, treatment::swap, treatment::swap_just_in_time,
                                             treatment::recompute, treatment::recompute_and_keep};

// Draws random changes to the treatments of large gap classes.
class move_proposer {
 public:
  // `large`: indices of the large classes; `may_swap`: whether swaps may be drawn. Keeps references to `of`
  // and `large`.
  move_proposer(const search_space& of, const std::vector<std::size_t>& large, bool may_swap)
      : space_(of),
        large_classes_(large),
        may_swap_(may_swap && of.may_swap()),
        refusal_counts_(of.classes().size() * drawn_treatments.size()) {
    for (std::size_t i = 0; i < large.size(); ++i) by_size_[of.classes()[large[i]].bytes].push_back(i);
    for (const std::size_t class_index : large)
      same_size_.push_back(&by_size_.at(of.classes()[class_index].bytes));
  }

  struct move {
    std::size_t index = 0;  // index into large_classes_
    treatment how = treatment::keep;
  };
  // Draws a class, large ones more often, and a treatment. A pair that was refused many times since it was
  // last accepted is drawn less often.
  move draw(const std::vector<treatment>& treatments, std::mt19937& dice) const {
    constexpr int max_draws = 20;
    constexpr std::size_t many_classes =
        400;  // with more classes than this, the preference for large ones is stronger
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto bytes = [&](std::size_t i) { return space_.classes()[large_classes_[i]].bytes; };
    move drawn;
    for (int i = 0; i < max_draws; ++i) {
      std::size_t first = any(large_classes_.size());
      for (std::size_t size = large_classes_.size(); size > 0; size = size > many_classes ? size / 2 : 0) {
        const std::size_t other = any(large_classes_.size());
        if (bytes(first) < bytes(other)) first = other;
      }
      drawn = {first, drawn_treatments[any(drawn_treatments.size())]};
      if (treatments[large_classes_[drawn.index]] == drawn.how ||
          !may(large_classes_[drawn.index], drawn.how))
        continue;
      if (any(1 + std::size_t{refusal_counts_[refusal_index(drawn)]}) == 0) break;
    }
    return drawn;
  }

  // Applies the drawn treatment in one of four ways: to the class alone; to it and some classes after it; to
  // it while a nearby class is kept or no longer kept; or by exchanging treatments with a class of the same
  // size. Returns false if nothing changed.
  bool apply(std::vector<treatment>& treatments, const move& drawn, std::mt19937& dice) const {
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto set = [&](std::size_t i, treatment how) {
      const std::size_t class_index = large_classes_[i];
      if (treatments[class_index] == how || !may(class_index, how)) return false;
      treatments[class_index] = how;
      return true;
    };
    const std::size_t kind = any(12);
    if (kind == 0) {
      bool changed = false;
      const std::size_t end = std::min(drawn.index + 2 + any(8), large_classes_.size());
      for (std::size_t i = drawn.index; i < end; ++i) changed = set(i, drawn.how) || changed;
      return changed;
    }
    if (kind > 7)
      return exchange(treatments, drawn.index,
                      (*same_size_[drawn.index])[any(same_size_[drawn.index]->size())]);
    if (!set(drawn.index, drawn.how)) return false;
    if (kind > 3) return true;
    constexpr std::size_t near_distance = 8;
    const bool far = any(4) == 0;
    const std::size_t from = far || drawn.index < near_distance ? 0 : drawn.index - near_distance;
    const std::size_t other = from + any(far ? large_classes_.size()
                                             : std::min(2 * near_distance + 1, large_classes_.size() - from));
    if (other != drawn.index) {
      set(other, drawn.how == treatment::keep ? drawn_treatments[1 + any(drawn_treatments.size() - 1)]
                                              : treatment::keep);
    }
    return true;
  }

  void record_outcome(const move& drawn, bool taken) {
    std::uint32_t& refused = refusal_counts_[refusal_index(drawn)];
    refused = taken ? 0 : refused + 1;
  }

 private:
  bool may(std::size_t class_index, treatment how) const {
    return (may_swap_ || !swaps(how)) && space_.allows(class_index, how);
  }
  bool exchange(std::vector<treatment>& treatments, std::size_t i, std::size_t k) const {
    treatment &first = treatments[large_classes_[i]], &other = treatments[large_classes_[k]];
    if (first == other || !may(large_classes_[i], other) || !may(large_classes_[k], first)) return false;
    std::swap(first, other);
    return true;
  }
  std::size_t refusal_index(const move& drawn) const {
    return large_classes_[drawn.index] * drawn_treatments.size() + static_cast<std::size_t>(drawn.how);
  }

  const search_space& space_;
  const std::vector<std::size_t>& large_classes_;
  bool may_swap_ = false;
  std::map<byte_count, std::vector<std::size_t>> by_size_;  // size in bytes to indices into large_classes_
  std::vector<const std::vector<std::size_t>*>
      same_size_;  // per large class: all large classes of the same size, itself included
  std::vector<std::uint32_t> refusal_counts_;  // per class and treatment: refusals since it was last accepted
};

}  // namespace um
