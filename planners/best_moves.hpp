// The changes of decisions that annealing tries.
#pragma once

#include <array>
#include <map>
#include <random>
#include <vector>

#include "planners/best_space.hpp"

namespace um {

// Treatments that are drawn at random; swap_back_late is tried at the end, in place of other swaps.
inline constexpr std::array drawn_treatments{treatment::keep, treatment::swap, treatment::swap_just_in_time,
                                             treatment::recompute, treatment::recompute_and_keep};

// Draws random changes of the treatments of large classes.
class proposals {
 public:
  // `large`: indices of classes; `may_swap`: swaps may be drawn. Keeps references to `of` and `large`.
  proposals(const search_space& of, const std::vector<std::size_t>& large, bool may_swap)
      : of_(of),
        large_(large),
        may_swap_(may_swap && of.may_swap()),
        refusals_(of.classes().size() * drawn_treatments.size()) {
    for (std::size_t i = 0; i < large.size(); ++i) by_size_[of.classes()[large[i]].bytes].push_back(i);
    for (const std::size_t c : large) same_size_.push_back(&by_size_.at(of.classes()[c].bytes));
  }

  struct move {
    std::size_t first = 0;  // index into large_
    treatment how = treatment::keep;
  };
  // Draws a class, the larger the more often, and a treatment. A pair is drawn the more seldom, the more
  // often it was refused since it was last taken.
  move draw(const std::vector<treatment>& treatments, std::mt19937& dice) const {
    constexpr int most_draws = 20;
    constexpr std::size_t many = 400;  // of more classes, large ones are drawn even more often
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto bytes = [&](std::size_t i) { return of_.classes()[large_[i]].bytes; };
    move m;
    for (int i = 0; i < most_draws; ++i) {
      std::size_t one = any(large_.size());
      for (std::size_t size = large_.size(); size > 0; size = size > many ? size / 2 : 0) {
        const std::size_t other = any(large_.size());
        if (bytes(one) < bytes(other)) one = other;
      }
      m = {one, drawn_treatments[any(drawn_treatments.size())]};
      if (treatments[large_[m.first]] == m.how || !may(large_[m.first], m.how)) continue;
      if (any(1 + std::size_t{refusals_[index_of(m)]}) == 0) break;
    }
    return m;
  }

  // Applies one of four moves: the drawn treatment for one class; for it and some neighbours; for it while a
  // nearby class is kept or given up; or an exchange of treatments with a class of the same size. False:
  // nothing changed.
  bool change(std::vector<treatment>& treatments, const move& m, std::mt19937& dice) const {
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto set = [&](std::size_t i, treatment how) {
      const std::size_t c = large_[i];
      if (treatments[c] == how || !may(c, how)) return false;
      treatments[c] = how;
      return true;
    };
    const std::size_t kind = any(12);
    if (kind == 0) {
      bool changed = false;
      const std::size_t end = std::min(m.first + 2 + any(8), large_.size());
      for (std::size_t i = m.first; i < end; ++i) changed = set(i, m.how) || changed;
      return changed;
    }
    if (kind > 7)
      return exchange(treatments, m.first, (*same_size_[m.first])[any(same_size_[m.first]->size())]);
    if (!set(m.first, m.how)) return false;
    if (kind > 3) return true;
    constexpr std::size_t near = 8;
    const bool far = any(4) == 0;
    const std::size_t from = far || m.first < near ? 0 : m.first - near;
    const std::size_t other = from + any(far ? large_.size() : std::min(2 * near + 1, large_.size() - from));
    if (other != m.first) {
      set(other, m.how == treatment::keep ? drawn_treatments[1 + any(drawn_treatments.size() - 1)]
                                          : treatment::keep);
    }
    return true;
  }

  void note(const move& m, bool taken) {
    std::uint32_t& refused = refusals_[index_of(m)];
    refused = taken ? 0 : refused + 1;
  }

 private:
  bool may(std::size_t c, treatment how) const { return (may_swap_ || !swaps(how)) && of_.allows(c, how); }
  bool exchange(std::vector<treatment>& treatments, std::size_t i, std::size_t k) const {
    treatment &one = treatments[large_[i]], &other = treatments[large_[k]];
    if (one == other || !may(large_[i], other) || !may(large_[k], one)) return false;
    std::swap(one, other);
    return true;
  }
  std::size_t index_of(const move& m) const {
    return large_[m.first] * drawn_treatments.size() + static_cast<std::size_t>(m.how);
  }

  const search_space& of_;
  const std::vector<std::size_t>& large_;
  bool may_swap_ = false;
  std::map<byte_count, std::vector<std::size_t>> by_size_;  // large classes by their size
  std::vector<const std::vector<std::size_t>*>
      same_size_;                        // per large class: all of its size, itself included
  std::vector<std::uint32_t> refusals_;  // per class and treatment: refusals since it was last taken
};

}  // namespace um
