// Right plans made by throwing dice: operators whole or in 1 to 8 uneven parts along several axes, tensors
// that move in other parts than they are computed in, values that are computed again.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/memory_plan.hpp"

namespace um::testing {

enum class cuts : std::uint8_t { of_the_batch, of_all_axes };

class random_plan {
 public:
  random_plan(const graph& g, std::uint32_t seed, cuts how) : g_(g), dice_(seed), how_(how) {
    lasts_ = last_uses();
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      plan_.residences.push_back(std::array{residence::device, residence::staged, residence::staged,
                                            residence::staged, residence::managed, residence::twinned,
                                            residence::host}[random_below(7)]);
      // Smaller ones share their blocks with others.
      const bool alone = lasts_[t] != never && bytes_of(g.tensors[t]) >= managed_block;
      if (plan_.residences[t] == residence::twinned && !alone) plan_.residences[t] = residence::managed;
      tensors_.push_back({{whole_of(g.tensors[t].shape)}, {false}, persists(g.tensors[t].role)});
    }
    producer_.assign(g.tensors.size(), never);
    for (op_id o = 0; o < g.ops.size(); ++o) {
      for (const tensor_id t : g.ops[o].out) producer_[t] = o;
    }
  }

  memory_plan make() {
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      for (const tensor_id t : g_.ops[o].in) maybe_recompute(t, o);
      compute_in_parts(o);
      for (tensor_id t = 0; t < g_.tensors.size(); ++t) maybe_discard_after_last_use(o, t);
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (survives(g_.tensors[t].role) && is_copied(plan_.residences[t])) evict_all_boxes(t);
    }
    return plan_;
  }

 private:
  static constexpr std::uint32_t max_parts_ = 8;  // parts along an axis
  static constexpr op_id never = std::numeric_limits<op_id>::max();

  // How a copied tensor lies now: boxes that tile it, and which of them are on the device.
  struct tensor_state {
    std::vector<region> boxes;
    std::vector<bool> here;
    bool alive = false;  // has its final value, or the one before an update
    bool updated = false;
  };

  std::uint32_t random_below(std::uint32_t n) { return static_cast<std::uint32_t>(dice_() % n); }

  std::vector<op_id> last_uses() const {
    std::vector<op_id> last(g_.tensors.size(), never);
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      for (const tensor_id t : g_.ops[o].in) last[t] = o;
      for (const tensor_id t : g_.ops[o].out) last[t] = o;
    }
    return last;
  }

  // Uneven parts of an extent, in order.
  std::vector<interval> random_cut(std::int64_t extent, std::uint32_t parts) {
    std::vector<std::int64_t> borders{0, extent};
    for (std::uint32_t p = 1; p < parts; ++p) {
      borders.push_back(static_cast<std::int64_t>(random_below(static_cast<std::uint32_t>(extent))));
    }
    std::ranges::sort(borders);
    borders.erase(std::ranges::unique(borders).begin(), borders.end());
    std::vector<interval> all;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) all.push_back({borders[i], borders[i + 1]});
    return all;
  }

  // Whole, or cut along some of the axes that the operator allows.
  std::vector<box> random_parts_of(const op& o) {
    std::vector<box> parts{{}};
    if (random_below(3) == 0) return parts;
    const box all = iteration_domain(g_, o);
    for (interval box::* along : {&box::batch, &box::channel, &box::row, &box::reduction}) {
      if (random_below(2) == 0 || (how_ == cuts::of_the_batch && along != &box::batch)) continue;
      box first;
      first.*along = {0, 1};
      try {
        static_cast<void>(with_explicit_ranges(g_, o, first));
      } catch (const std::invalid_argument&) {
        continue;
      }
      const std::vector<interval> ranges = random_cut((all.*along).end, 1 + random_below(max_parts_));
      std::vector<box> finer;
      for (const box& b : parts) {
        for (const interval& i : ranges) {
          finer.push_back(b);
          finer.back().*along = i;
        }
      }
      parts = std::move(finer);
      if (parts.size() > max_parts_) break;
    }
    return parts;
  }

  void compute_in_parts(op_id at) {
    const op& o = g_.ops[at];
    const std::vector<box> parts = random_parts_of(o);
    writing_ = o.out;
    for (const tensor_id t : o.out) {
      if (!is_copied(plan_.residences[t])) continue;
      evict_all_boxes(t);
      if (plan_.residences[t] == residence::staged) split_as_written(at, t, parts);
    }
    for (const box& part : parts) {
      for (const access& a : accesses_of(g_, o, part)) {
        if (a.mode != access_mode::write) prefetch_needed_boxes(a.tensor, a.where);
      }
      plan_.actions.emplace_back(compute{at, part});
      for (const access& a : accesses_of(g_, o, part)) {
        if (a.mode != access_mode::read) mark_written(a.tensor, a.where);
      }
      for (const access& a : accesses_of(g_, o, part)) {
        if (random_below(4) == 0) evict_some_boxes(a.tensor, part == parts.back());
      }
    }
    for (const tensor_id t : o.out) {
      tensors_[t].updated = tensors_[t].alive && std::ranges::find(o.in, t) != o.in.end();
      tensors_[t].alive = true;
    }
  }

  // From now on in the parts that an operator writes.
  void split_as_written(op_id o, tensor_id t, const std::vector<box>& parts) {
    tensor_state& w = tensors_[t];
    w.boxes.clear();
    for (const box& part : parts) {
      for (const access& a : accesses_of(g_, g_.ops[o], part)) {
        if (a.tensor == t && a.mode != access_mode::read &&
            std::ranges::find(w.boxes, a.where) == w.boxes.end())
          w.boxes.push_back(a.where);
      }
    }
    w.here.assign(w.boxes.size(), false);
  }

  void mark_written(tensor_id t, const region& r) {
    if (!is_copied(plan_.residences[t])) return;
    tensor_state& w = tensors_[t];
    for (std::size_t i = 0; i < w.boxes.size(); ++i) {
      if (intersection(w.boxes[i], r)) w.here[i] = true;
    }
  }

  box box_in(tensor_id t, const region& r) const { return box_of(g_.tensors[t].shape, r); }

  // What of a copied tensor a region needs; of a managed one perhaps.
  void prefetch_needed_boxes(tensor_id t, const region& r) {
    if (plan_.residences[t] == residence::managed && random_below(3) == 0) {
      plan_.actions.emplace_back(prefetch{t, box{box_in(t, r).batch, {}, {}, {}}});
    }
    if (!is_copied(plan_.residences[t])) return;
    tensor_state& w = tensors_[t];
    const bool away = std::ranges::find(w.here, true) == w.here.end();
    // In other parts than those in which it left.
    const bool kept = std::ranges::find(writing_, t) == writing_.end();
    if (away && kept && w.alive && plan_.residences[t] == residence::staged && random_below(2) == 0)
      split_anew(t);
    for (std::size_t i = 0; i < w.boxes.size(); ++i) {
      if (w.here[i] || !intersection(w.boxes[i], r)) continue;
      plan_.actions.emplace_back(prefetch{t, box_in(t, w.boxes[i])});
      w.here[i] = true;
    }
  }

  std::uint32_t random_part_count() {
    return how_ == cuts::of_all_axes && random_below(3) == 0 ? 1 + random_below(3) : 1;
  }

  void split_anew(tensor_id t) {
    const dims& shape = g_.tensors[t].shape;
    tensor_state& w = tensors_[t];
    w.boxes.clear();
    for (const interval& n : random_cut(shape.n, 1 + random_below(max_parts_))) {
      for (const interval& c : random_cut(shape.c, random_part_count())) {
        for (const interval& h : random_cut(shape.h, random_part_count())) w.boxes.push_back({n, c, h});
      }
    }
    w.here.assign(w.boxes.size(), false);
  }

  // Parts of sums that are not complete may leave, too.
  void evict_some_boxes(tensor_id t, bool all_written) {
    tensor_state& w = tensors_[t];
    if (plan_.residences[t] == residence::managed) {
      plan_.actions.emplace_back(evict{t, {}});
      return;
    }
    if (plan_.residences[t] == residence::twinned && !all_written) return;
    if (!is_copied(plan_.residences[t])) return;
    for (std::size_t i = 0; i < w.boxes.size(); ++i) {
      if (!w.here[i] || random_below(2) == 0) continue;
      plan_.actions.emplace_back(evict{t, box_in(t, w.boxes[i])});
      w.here[i] = false;
    }
  }

  void evict_all_boxes(tensor_id t) {
    tensor_state& w = tensors_[t];
    for (std::size_t i = 0; i < w.boxes.size(); ++i) {
      if (w.here[i]) plan_.actions.emplace_back(evict{t, box_in(t, w.boxes[i])});
      w.here[i] = false;
    }
  }

  // Forgets a value and computes it again from what there still is.
  void maybe_recompute(tensor_id t, op_id now) {
    const op_id o = producer_[t];
    if (o >= now || random_below(8) != 0 || !g_.ops[o].is_repeatable || persists(g_.tensors[t].role)) return;
    const auto there = [&](tensor_id x) { return tensors_[x].alive && !tensors_[x].updated; };
    if (!std::ranges::all_of(g_.ops[o].in, there) || !std::ranges::all_of(g_.ops[o].out, there)) return;
    for (const tensor_id x : g_.ops[o].out) discard_value(x);
    compute_in_parts(o);
  }

  void discard_value(tensor_id t) {
    const auto parts = random_cut(g_.tensors[t].shape.n, 1 + random_below(3));
    for (const interval& n : parts) {
      region r = whole_of(g_.tensors[t].shape);
      r.batch = n;
      // Of a twinned one only whole blocks can go.
      plan_.actions.emplace_back(
          discard{t, plan_.residences[t] == residence::twinned ? box{} : box_in(t, r)});
      if (plan_.residences[t] == residence::twinned) break;
    }
    tensors_[t].here.assign(tensors_[t].boxes.size(), false);
    tensors_[t].alive = false;
  }

  void maybe_discard_after_last_use(op_id o, tensor_id t) {
    if (lasts_[t] != o || survives(g_.tensors[t].role) || !tensors_[t].alive) return;
    if (random_below(2) == 0) discard_value(t);
  }

  const graph& g_;
  std::mt19937 dice_;
  cuts how_;
  memory_plan plan_;
  std::vector<tensor_state> tensors_;
  std::vector<op_id> lasts_, producer_;
  std::vector<tensor_id> writing_;  // by the operator that is computed
};

}  // namespace um::testing
