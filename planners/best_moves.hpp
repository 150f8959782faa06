// The changes of decisions that the search for the best plan tries.
#pragma once

#include <array>
#include <map>
#include <random>
#include <vector>

#include "planners/best_space.hpp"

namespace um {

inline constexpr std::array all_treatments{treatment::keep, treatment::swap, treatment::swap_in_time,
                                           treatment::again, treatment::again_kept};

// What annealing tries next: changes of decisions for large classes.
class proposals {
 public:
  // `large`: of the classes; `moves`: swaps as well. Refers to both.
  proposals(const search_space& of, const std::vector<std::size_t>& large, bool moves)
      : of_(of),
        large_(large),
        moves_(moves && of.moves()),
        refused_(of.classes().size() * all_treatments.size()) {
    for (std::size_t i = 0; i < large.size(); ++i) of_size_[of.classes()[large[i]].bytes].push_back(i);
    for (const std::size_t c : large) alike_.push_back(&of_size_.at(of.classes()[c].bytes));
  }

  struct move {
    std::size_t first = 0;  // index into large_
    treatment how = treatment::keep;
  };
  // Large classes are drawn more often. A change is drawn the more seldom, the more often it was refused
  // since it was last taken: most swaps never pay.
  move draw(const std::vector<treatment>& treatments, std::mt19937& dice) const {
    constexpr int most_draws = 20;
    constexpr std::size_t many = 400;  // of more, large ones are drawn more often still
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto bytes = [&](std::size_t i) { return of_.classes()[large_[i]].bytes; };
    move m;
    for (int i = 0; i < most_draws; ++i) {
      std::size_t one = any(large_.size());
      for (std::size_t size = large_.size(); size > 0; size = size > many ? size / 2 : 0) {
        const std::size_t other = any(large_.size());
        if (bytes(one) < bytes(other)) one = other;
      }
      m = {one, all_treatments[any(all_treatments.size())]};
      if (treatments[large_[m.first]] == m.how || !may(large_[m.first], m.how)) continue;
      if (any(1 + std::size_t{refused_[of_move(m)]}) == 0) break;
    }
    return m;
  }

  // One decision, those of some neighbours alike, or two: mostly near each other, one of them taken back, or
  // those of two classes of one size exchanged, so that what is kept of a row of blocks moves along it.
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
    if (kind > 7) return exchange(treatments, m.first, (*alike_[m.first])[any(alike_[m.first]->size())]);
    if (!set(m.first, m.how)) return false;
    if (kind > 3) return true;
    constexpr std::size_t near = 8;
    const bool far = any(4) == 0;
    const std::size_t from = far || m.first < near ? 0 : m.first - near;
    const std::size_t other = from + any(far ? large_.size() : std::min(2 * near + 1, large_.size() - from));
    if (other != m.first) {
      set(other,
          m.how == treatment::keep ? all_treatments[1 + any(all_treatments.size() - 1)] : treatment::keep);
    }
    return true;
  }

  void note(const move& m, bool taken) {
    std::uint32_t& refused = refused_[of_move(m)];
    refused = taken ? 0 : refused + 1;
  }

 private:
  bool may(std::size_t c, treatment how) const {
    return (moves_ || (how != treatment::swap && how != treatment::swap_in_time)) && of_.allows(c, how);
  }
  bool exchange(std::vector<treatment>& treatments, std::size_t i, std::size_t k) const {
    treatment &one = treatments[large_[i]], &other = treatments[large_[k]];
    if (one == other || !may(large_[i], other) || !may(large_[k], one)) return false;
    std::swap(one, other);
    return true;
  }
  std::size_t of_move(const move& m) const {
    return large_[m.first] * all_treatments.size() + static_cast<std::size_t>(m.how);
  }

  const search_space& of_;
  const std::vector<std::size_t>& large_;
  bool moves_ = false;
  std::map<byte_count, std::vector<std::size_t>> of_size_;  // large classes by their size
  std::vector<const std::vector<std::size_t>*> alike_;  // per large class: all of its size, itself among them
  std::vector<std::uint32_t> refused_;                  // per class and treatment: since it was last taken
};

}  // namespace um
