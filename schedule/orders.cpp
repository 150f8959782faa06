#include "schedule/orders.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <string>

namespace um {

std::int64_t images_of_op(const graph& g, const op& o) {
  return iteration_domain(g, o).batch.end;
}

namespace {

// Splits the operators of a loop into stages. In even stages the operators run part by part, in odd ones
// whole. An operator that reads a sum over parts, or all of a tensor that is written part by part, is in a
// later stage. `needs_no_part`: the operator depends on no part.
constexpr int needs_no_part = -1;

class stage_builder {
 public:
  // `strict`: throws infeasible if a split operator reads one that cannot be split and that depends on parts.
  stage_builder(const graph& g, const batch_loop& run, const std::vector<bool>& deferred, bool strict)
      : g_(g),
        loop_(run),
        is_strict_(strict),
        writers_(g.tensors.size()),
        last_reader_stage_(g.tensors.size(), needs_no_part) {
    for (op_id o = run.begin; o < run.end; ++o) {
      placed_op x{o, needs_no_part, can_split_batch(g, g.ops[o], run.parts) && run.parts > 1};
      if (deferred[o]) {
        if (strict && x.is_cut) throw_reads_deferred(g.ops[o], deferred);
        continue;
      }
      x.stage = earliest_stage_of(x);
      record_op(x);
      placed_ops_.push_back(x);
    }
    place_ops_without_parts();
  }

  std::vector<compute> order() const {
    int last = 0;
    for (const placed_op& x : placed_ops_) last = std::max(last, x.stage);
    std::vector<std::vector<placed_op>> by_stage(static_cast<std::size_t>(last) + 1);
    for (const placed_op& x : placed_ops_) by_stage[static_cast<std::size_t>(x.stage)].push_back(x);
    std::vector<compute> all;
    for (const std::vector<placed_op>& stage : by_stage) {
      const bool in_parts = std::ranges::any_of(stage, &placed_op::is_cut);
      for (std::uint32_t i = 0; i < (in_parts ? loop_.parts : 1); ++i) {
        const std::uint32_t part = loop_.descending ? loop_.parts - 1 - i : i;
        for (const placed_op& x : stage) {
          if (x.is_cut) all.push_back({x.op, batch_part_of(x.op, part)});
          if (!x.is_cut && i == 0) all.push_back({x.op, {}});
        }
      }
    }
    return all;
  }

 private:
  struct placed_op {
    op_id op = 0;
    int stage = needs_no_part;
    bool is_cut = false;
  };
  struct tensor_writer {  // last writer of a tensor within the loop
    op_id op = 0;
    int stage = needs_no_part;
    bool writes_slices = false;  // each part writes its own slice
  };

  box batch_part_of(op_id o, std::uint32_t part) const {
    return batch_part(images_of_op(g_, g_.ops[o]), part, loop_.parts);
  }
  static bool is_whole_stage(int stage) { return stage % 2 == 1; }

  int earliest_stage_of(const placed_op& x) const {
    int least = needs_no_part;
    const auto wait_for = [&](int stage, bool whole) {
      if (stage == needs_no_part) return;
      const bool joins = is_whole_stage(stage) ? !x.is_cut : x.is_cut && !whole;
      least = std::max(least, joins ? stage : is_whole_stage(stage) || !x.is_cut ? stage + 1 : stage + 2);
    };
    const op& o = g_.ops[x.op];
    for (const tensor_id t : o.in) {
      const tensor_writer& from = writers_[t];
      if (from.stage == needs_no_part) continue;
      if (is_strict_ && x.is_cut && is_whole_stage(from.stage)) throw_needs_batch(g_.ops[from.op], o);
      wait_for(from.stage, !x.is_cut || !from.writes_slices || !reads_own_slices(x.op, t, from.op));
    }
    // Earlier readers and writers of a tensor precede an operator that writes it again.
    for (const tensor_id t : o.out) wait_for(std::max(writers_[t].stage, last_reader_stage_[t]), true);
    return x.is_cut && least == needs_no_part ? 0 : least;
  }

  void record_op(const placed_op& x) {
    const op& o = g_.ops[x.op];
    for (const tensor_id t : o.in) last_reader_stage_[t] = std::max(last_reader_stage_[t], x.stage);
    for (const tensor_id t : o.out) writers_[t] = {x.op, x.stage, false};
    if (!x.is_cut) return;
    for (const access& a : accesses_of(g_, o, batch_part_of(x.op, loop_.parts - 1))) {
      if (a.mode == access_mode::write && !is_whole(g_.tensors[a.tensor].shape, a.where))
        writers_[a.tensor].writes_slices = true;
    }
  }

  // Whether every part of the reader reads only those slices of `t` that the same part or earlier parts of
  // operator `by` write. If both have equally many images, checking the first part suffices.
  bool reads_own_slices(op_id reader, tensor_id t, op_id by) const {
    const auto touched = [&](op_id o, std::uint32_t part, bool reading) {
      interval all{std::numeric_limits<std::int64_t>::max(), 0};
      for (const access& a : accesses_of(g_, g_.ops[o], batch_part_of(o, part))) {
        if (a.tensor != t || (a.mode == access_mode::read) != reading) continue;
        all = {std::min(all.begin, a.where.batch.begin), std::max(all.end, a.where.batch.end)};
      }
      return all;
    };
    const bool alike = images_of_op(g_, g_.ops[reader]) == images_of_op(g_, g_.ops[by]);
    for (std::uint32_t i = 0; i < (alike ? 1 : loop_.parts); ++i) {
      const std::uint32_t part = loop_.descending ? loop_.parts - 1 - i : i;
      const interval read = touched(reader, part, true), written = touched(by, part, false);
      if (loop_.descending ? read.begin < written.begin : read.end > written.end) return false;
    }
    return true;
  }

  // Puts operators that depend on no part before the first operator that needs them.
  void place_ops_without_parts() {
    std::vector<int> first_reader(g_.tensors.size(), std::numeric_limits<int>::max());
    for (placed_op& x : placed_ops_ | std::views::reverse) {
      const op& o = g_.ops[x.op];
      if (x.stage == needs_no_part) {
        int first = std::numeric_limits<int>::max();
        for (const tensor_id t : o.out) first = std::min(first, first_reader[t]);
        x.stage = first == std::numeric_limits<int>::max() ? 0 : first;
      }
      for (const tensor_id t : o.in) first_reader[t] = std::min(first_reader[t], x.stage);
    }
  }

  [[noreturn]] static void throw_needs_batch(const op& whole, const op& reader) {
    throw infeasible("micro-batches cannot go through " + whole.name + " (" +
                     std::string(kind_of(whole.attributes)) + "): it needs the whole batch, and " +
                     reader.name + " reads what it writes");
  }
  void throw_reads_deferred(const op& reader, const std::vector<bool>& deferred) const {
    for (op_id k = 0; k < g_.ops.size(); ++k) {
      const op& x = g_.ops[k];
      if (&x != &reader && deferred[k] && std::ranges::find_first_of(reader.in, x.out) != reader.in.end())
        throw_needs_batch(x, reader);
    }
  }

  const graph& g_;
  const batch_loop& loop_;
  bool is_strict_ = false;
  std::vector<tensor_writer> writers_;
  std::vector<int> last_reader_stage_;  // per tensor: the last stage of the loop that reads it
  std::vector<placed_op> placed_ops_;
};

// Per operator, whether it is deferred: it is in `requested` or depends on one that is.
std::vector<bool> find_deferred(const graph& g, const std::vector<op_id>& requested) {
  std::vector<bool> deferred(g.ops.size(), false), written(g.tensors.size(), false);
  for (const op_id o : requested) deferred[o] = true;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    if (std::ranges::any_of(x.in, [&](tensor_id t) { return written[t]; })) deferred[o] = true;
    if (!deferred[o]) continue;
    for (const tensor_id t : x.out) written[t] = true;
  }
  return deferred;
}

}  // namespace

std::vector<compute> graph_order(const graph& g) {
  std::vector<compute> all;
  for (op_id o = 0; o < g.ops.size(); ++o) all.push_back({o, {}});
  return all;
}

memory_plan make_plan(const graph& g, const std::vector<compute>& order, residence home) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), home);
  plan.actions.assign(order.begin(), order.end());
  return plan;
}

std::int64_t batch_size(const graph& g) {
  const auto input = std::ranges::find(g.tensors, role::input, &tensor::role);
  return input == g.tensors.end() ? 1 : input->shape.n;
}

bool can_split_batch(const graph& g, const op& o, std::uint32_t parts) {
  if (parts == 1) return true;
  try {
    const std::int64_t images = images_of_op(g, o);
    if (std::int64_t{parts} > images) return false;
    return std::ranges::all_of(accesses_of(g, o, batch_part(images, parts - 1, parts)), [&](const access& a) {
      return !belongs_to_parameter(g.tensors[a.tensor].role) || is_whole(g.tensors[a.tensor].shape, a.where);
    });
  } catch (const std::invalid_argument&) {  // the operator cannot be cut so
    return false;
  }
}

std::vector<compute> make_order(const graph& g, const loop_nest& l) {
  const auto count = static_cast<op_id>(g.ops.size());
  const bool micro = l.micro_batches > 1;
  if (micro && !l.inner_loops.empty()) throw std::invalid_argument("micro-batches have no inner loops");
  const std::vector<bool> deferred = find_deferred(g, l.deferred);
  std::vector<compute> order;
  const auto add = [&](const batch_loop& run) {
    const std::vector<compute> all = stage_builder(g, run, deferred, micro).order();
    order.insert(order.end(), all.begin(), all.end());
  };
  op_id o = 0;
  for (const batch_loop& run : l.inner_loops) {
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
  std::ranges::stable_sort(order.begin() + from, order.end(), {}, &compute::op);
  return order;
}

std::vector<op_id> ops_with_large_parameter_gradients(const graph& g) {
  std::vector<op_id> all;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    byte_count in = 0, out = 0;
    for (const tensor_id t : x.in) in += bytes_of(g.tensors[t]);
    for (const tensor_id t : x.out) out += bytes_of(g.tensors[t]);
    const bool only_gradients = std::ranges::all_of(
        x.out, [&](tensor_id t) { return g.tensors[t].role == role::parameter_gradient; });
    if (only_gradients && out > in) all.push_back(o);
  }
  return all;
}

std::vector<loop_nest> whole_operator_nests(const graph& g) {
  const std::vector<op_id> large = ops_with_large_parameter_gradients(g);
  std::vector<loop_nest> all{{1, {}, large}};
  const auto written_by = [&](op_id o) {
    byte_count bytes = 0;
    for (const tensor_id t : g.ops[o].out) bytes += bytes_of(g.tensors[t]);
    return bytes;
  };
  byte_count in_all = 0;
  for (const op_id o : large) in_all += written_by(o);
  for (const op_id o : large) {
    if (large.size() > 1 && written_by(o) > in_all / 2) all.push_back({1, {}, {o}});
  }
  return all;
}

}  // namespace um
