#include <optional>

#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"

namespace um {
namespace {

class choosing {
 public:
  explicit choosing(const problem& p) : p_(p), labelling_(p), ends_{0} {
    for (position at = 0; at < labelling_.uses().end(); ++at)
      ends_.push_back(ends_.back() + labelling_.costs().compute_time(at));
    maker_.assign(labelling_.uses().parts.size(), none);
    for (std::size_t m = 0; m < labelling_.maps().size(); ++m) maker_[labelling_.maps()[m].part] = m;
  }

  memory_plan plan(byte_count room) {
    labels_.assign(labelling_.maps().size(), gap_choice::keep);
    for (fit_result now = look(); now.peak > room; now = look()) {
      if (!swap_what_hides(now.peak_position) && !take_the_cheaper(now.peak_position))
        throw infeasible(too_small(p_, "capuchin", now.peak));
    }
    return labelling_.plan(labelling_.place(labels_, arrival::late, room).decisions);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  fit_result look() { return labelling_.place(labels_, arrival::just_in_time, 0).room; }
  const gap& gap_of(std::size_t m) const { return labelling_.gaps()[labelling_.maps()[m].gap]; }
  bool open_at(std::size_t m, position at) const {
    return labels_[m] == gap_choice::keep && gap_of(m).last_use < at && at < gap_of(m).next_use;
  }

  // Free time: what is left of the time between two accesses once both copies are made.
  nanoseconds free_time(std::size_t m) {
    const byte_count bytes = labelling_.maps()[m].bytes;
    const auto start = [&](position at) { return ends_[static_cast<std::size_t>(at)]; };
    return start(gap_of(m).next_use) - start(gap_of(m).last_use + 1) -
           labelling_.costs().copy_time(bytes, lane::to_host) -
           labelling_.costs().copy_time(bytes, lane::to_device);
  }

  // Of computing it again, and what that takes which will not be there either.
  nanoseconds time_again(std::size_t m) {
    const position by = gap_of(m).producer;
    nanoseconds sum = labelling_.costs().recompute_time(by);
    for (const touched_part& x : labelling_.uses().touched_by_recompute(by)) {
      const std::size_t from = maker_[x.part];
      if (x.mode == access_mode::read && from != none && from < m && labels_[from] == gap_choice::recompute)
        sum += time_again(from);
    }
    return sum;
  }

  std::optional<std::size_t> most_free(position at) {
    std::optional<std::size_t> best;
    for (std::size_t m = 0; m < labels_.size() && labelling_.can_move(); ++m) {
      if (open_at(m, at) && (!best || free_time(m) > free_time(*best))) best = m;
    }
    return best;
  }

  bool swap_what_hides(position at) {
    const std::optional<std::size_t> m = most_free(at);
    if (!m || free_time(*m) < 0) return false;
    labels_[*m] = gap_choice::swap;
    return true;
  }

  // The swap that shows least against the recomputation that saves most bytes a second.
  bool take_the_cheaper(position at) {
    const std::optional<std::size_t> swapped = most_free(at);
    std::optional<std::size_t> again;
    const auto saves = [&](std::size_t m) {
      return static_cast<double>(labelling_.maps()[m].bytes) / static_cast<double>(time_again(m) + 1);
    };
    for (std::size_t m = 0; m < labels_.size(); ++m) {
      if (open_at(m, at) && labelling_.maps()[m].again && (!again || saves(m) > saves(*again))) again = m;
    }
    if (!swapped && !again) return false;
    const bool recomputes = again && (!swapped || time_again(*again) <= -free_time(*swapped));
    labels_[recomputes ? *again : *swapped] = recomputes ? gap_choice::recompute : gap_choice::swap;
    return true;
  }

  const problem& p_;
  labelling labelling_;
  std::vector<nanoseconds> ends_;   // when each position starts, computes alone
  std::vector<std::size_t> maker_;  // per part: its map
  std::vector<gap_choice> labels_;
};

}  // namespace

memory_plan plan_capuchin(const problem& p) {
  choosing c(p);
  return plan_within(p, packers::searched, "capuchin", [&](byte_count room) { return c.plan(room); });
}

}  // namespace um
