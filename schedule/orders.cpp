#include "schedule/orders.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <string>

namespace um {
namespace {

// How many images an operator's batch has.
std::int64_t images_of(const graph& g, const op& o) {
  return iteration_domain(g, o).batch.end;
}

// The operators of a run of parts, in phases: even ones go through in parts, one part after the other; odd
// ones are computed whole. What reads a sum over parts, or all of what is written part by part, waits for the
// phase after that. `ready`: depends on no part.
constexpr int ready = -1;

class phases {
 public:
  // `strict`: throws infeasible where an operator that is cut reads one that cannot be and follows parts.
  phases(const graph& g, const inner_loop& run, const std::vector<bool>& deferred, bool strict)
      : g_(g), run_(run), strict_(strict), of_tensor_(g.tensors.size()), reader_(g.tensors.size(), ready) {
    for (op_id o = run.begin; o < run.end; ++o) {
      placed_op x{o, ready, goes_over_batch(g, g.ops[o], run.parts) && run.parts > 1};
      if (deferred[o]) {
        if (strict && x.cut) refuse_late(g.ops[o], deferred);
        continue;
      }
      x.phase = phase_of(x);
      note(x);
      ops_.push_back(x);
    }
    place_ready();
  }

  std::vector<compute> order() const {
    int last = 0;
    for (const placed_op& x : ops_) last = std::max(last, x.phase);
    std::vector<std::vector<placed_op>> by_phase(static_cast<std::size_t>(last) + 1);
    for (const placed_op& x : ops_) by_phase[static_cast<std::size_t>(x.phase)].push_back(x);
    std::vector<compute> all;
    for (const std::vector<placed_op>& phase : by_phase) {
      const bool in_parts = std::ranges::any_of(phase, &placed_op::cut);
      for (std::uint32_t i = 0; i < (in_parts ? run_.parts : 1); ++i) {
        const std::uint32_t part = run_.descending ? run_.parts - 1 - i : i;
        for (const placed_op& x : phase) {
          if (x.cut) all.push_back({x.what, part_of(x.what, part)});
          if (!x.cut && i == 0) all.push_back({x.what, {}});
        }
      }
    }
    return all;
  }

 private:
  struct placed_op {
    op_id what = 0;
    int phase = ready;
    bool cut = false;
  };
  struct origin {  // of a tensor that the run writes
    op_id by = 0;
    int phase = ready;
    bool in_slices = false;  // each part writes its own
  };

  box part_of(op_id o, std::uint32_t part) const {
    return batch_part(images_of(g_, g_.ops[o]), part, run_.parts);
  }
  static bool is_whole_phase(int phase) { return phase % 2 == 1; }

  int phase_of(const placed_op& x) const {
    int least = ready;
    const auto wait_for = [&](int phase, bool whole) {
      if (phase == ready) return;
      const bool joins = is_whole_phase(phase) ? !x.cut : x.cut && !whole;
      least = std::max(least, joins ? phase : is_whole_phase(phase) || !x.cut ? phase + 1 : phase + 2);
    };
    const op& o = g_.ops[x.what];
    for (const tensor_id t : o.in) {
      const origin& from = of_tensor_[t];
      if (from.phase == ready) continue;
      if (strict_ && x.cut && is_whole_phase(from.phase)) refuse(g_.ops[from.by], o);
      wait_for(from.phase, !x.cut || !from.in_slices || !reads_own_slices(x.what, t, from.by));
    }
    // Whoever read or wrote a tensor before comes before whoever writes it again.
    for (const tensor_id t : o.out) wait_for(std::max(of_tensor_[t].phase, reader_[t]), true);
    return x.cut && least == ready ? 0 : least;
  }

  void note(const placed_op& x) {
    const op& o = g_.ops[x.what];
    for (const tensor_id t : o.in) reader_[t] = std::max(reader_[t], x.phase);
    for (const tensor_id t : o.out) of_tensor_[t] = {x.what, x.phase, false};
    if (!x.cut) return;
    for (const access& a : accesses_of(g_, o, part_of(x.what, run_.parts - 1))) {
      if (a.mode == access_mode::write && !is_whole(g_.tensors[a.what].shape, a.where))
        of_tensor_[a.what].in_slices = true;
    }
  }

  // Whether every part reads of `t` only what that part of `by` and those before it have written. Where both
  // have as many images, the first part tells for all.
  bool reads_own_slices(op_id reader, tensor_id t, op_id by) const {
    const auto touched = [&](op_id o, std::uint32_t part, bool reading) {
      interval all{std::numeric_limits<std::int64_t>::max(), 0};
      for (const access& a : accesses_of(g_, g_.ops[o], part_of(o, part))) {
        if (a.what != t || (a.mode == access_mode::read) != reading) continue;
        all = {std::min(all.begin, a.where.batch.begin), std::max(all.end, a.where.batch.end)};
      }
      return all;
    };
    const bool alike = images_of(g_, g_.ops[reader]) == images_of(g_, g_.ops[by]);
    for (std::uint32_t i = 0; i < (alike ? 1 : run_.parts); ++i) {
      const std::uint32_t part = run_.descending ? run_.parts - 1 - i : i;
      const interval read = touched(reader, part, true), written = touched(by, part, false);
      if (run_.descending ? read.begin < written.begin : read.end > written.end) return false;
    }
    return true;
  }

  // What depends on no part is computed before the first that needs it.
  void place_ready() {
    std::vector<int> first_reader(g_.tensors.size(), std::numeric_limits<int>::max());
    for (placed_op& x : ops_ | std::views::reverse) {
      const op& o = g_.ops[x.what];
      if (x.phase == ready) {
        int first = std::numeric_limits<int>::max();
        for (const tensor_id t : o.out) first = std::min(first, first_reader[t]);
        x.phase = first == std::numeric_limits<int>::max() ? 0 : first;
      }
      for (const tensor_id t : o.in) first_reader[t] = std::min(first_reader[t], x.phase);
    }
  }

  [[noreturn]] static void refuse(const op& whole, const op& reader) {
    throw infeasible("micro-batches cannot go through " + whole.name + " (" +
                     std::string(kind_of(whole.what)) + "): it needs the whole batch, and " + reader.name +
                     " reads what it writes");
  }
  void refuse_late(const op& reader, const std::vector<bool>& deferred) const {
    for (op_id k = 0; k < g_.ops.size(); ++k) {
      const op& x = g_.ops[k];
      if (&x != &reader && deferred[k] && std::ranges::find_first_of(reader.in, x.out) != reader.in.end())
        refuse(x, reader);
    }
  }

  const graph& g_;
  const inner_loop& run_;
  bool strict_ = false;
  std::vector<origin> of_tensor_;
  std::vector<int> reader_;  // per tensor: the last phase in which one reads it
  std::vector<placed_op> ops_;
};

// Those of `late`, and what depends on them.
std::vector<bool> deferred_of(const graph& g, const std::vector<op_id>& late) {
  std::vector<bool> deferred(g.ops.size(), false), written(g.tensors.size(), false);
  for (const op_id o : late) deferred[o] = true;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    if (std::ranges::any_of(x.in, [&](tensor_id t) { return written[t]; })) deferred[o] = true;
    if (!deferred[o]) continue;
    for (const tensor_id t : x.out) written[t] = true;
  }
  return deferred;
}

}  // namespace

std::vector<compute> in_order(const graph& g) {
  std::vector<compute> all;
  for (op_id o = 0; o < g.ops.size(); ++o) all.push_back({o, {}});
  return all;
}

memory_plan plan_of(const graph& g, const std::vector<compute>& order, residence home) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), home);
  plan.actions.assign(order.begin(), order.end());
  return plan;
}

std::int64_t batch_of(const graph& g) {
  const auto input = std::ranges::find(g.tensors, role::input, &tensor::use);
  return input == g.tensors.end() ? 1 : input->shape.n;
}

bool goes_over_batch(const graph& g, const op& o, std::uint32_t parts) {
  if (parts == 1) return true;
  try {
    const std::int64_t images = images_of(g, o);
    return std::ranges::all_of(accesses_of(g, o, batch_part(images, parts - 1, parts)), [&](const access& a) {
      return !is_of_parameters(g.tensors[a.what].use) || is_whole(g.tensors[a.what].shape, a.where);
    });
  } catch (const std::invalid_argument&) {  // no such cut, or fewer images than parts
    return false;
  }
}

std::vector<compute> order_of(const graph& g, const loops& l) {
  const auto count = static_cast<op_id>(g.ops.size());
  const bool micro = l.micro_batches > 1;
  if (micro && !l.inner.empty()) throw std::invalid_argument("micro-batches have no inner loops");
  const std::vector<bool> deferred = deferred_of(g, l.late);
  std::vector<compute> order;
  const auto add = [&](const inner_loop& run) {
    const std::vector<compute> all = phases(g, run, deferred, micro).order();
    order.insert(order.end(), all.begin(), all.end());
  };
  op_id o = 0;
  for (const inner_loop& run : l.inner) {
    for (; o < run.begin; ++o) {
      if (!deferred[o]) order.push_back({o, {}});
    }
    add(run);
    o = run.end;
  }
  if (micro) {
    add({0, count, l.micro_batches});
  } else {
    for (; o < count; ++o) {
      if (!deferred[o]) order.push_back({o, {}});
    }
  }
  const auto is_cut = [](const compute& c) { return !is_whole(c.part); };
  const auto last_part = std::ranges::find_if(order | std::views::reverse, is_cut).base() - order.begin();
  const auto behind = order.begin() + (micro ? last_part : static_cast<std::ptrdiff_t>(order.size()));
  const auto from = behind - order.begin();
  for (op_id x = 0; x < count; ++x) {
    if (deferred[x]) order.push_back({x, {}});
  }
  std::ranges::stable_sort(order.begin() + from, order.end(), {}, &compute::what);
  return order;
}

std::vector<op_id> large_gradients(const graph& g) {
  std::vector<op_id> all;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    byte_count in = 0, out = 0;
    for (const tensor_id t : x.in) in += bytes_of(g.tensors[t]);
    for (const tensor_id t : x.out) out += bytes_of(g.tensors[t]);
    const bool only_gradients =
        std::ranges::all_of(x.out, [&](tensor_id t) { return g.tensors[t].use == role::parameter_gradient; });
    if (only_gradients && out > in) all.push_back(o);
  }
  return all;
}

}  // namespace um
