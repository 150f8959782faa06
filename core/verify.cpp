#include "core/verify.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "core/copies.hpp"
#include "core/memory_plan.hpp"

namespace um {
namespace {

// A token stands for a value: equal tokens are equal bits. 0 is "no value".
using token = std::uint64_t;
constexpr token is_partial = token{1} << 63;  // flag of an unfinished sum; the other bits are its index

// The tokens of each operand of each operator when the graph runs in order, without a plan.
struct values_in_order {
  std::vector<std::vector<token>> in, out;  // per operator, per operand
  std::vector<token> initial, final;        // per tensor; 0: no value
};

values_in_order tokens_in_order(const graph& g) {
  values_in_order e;
  token next = 1;
  e.initial.assign(g.tensors.size(), 0);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (persists(g.tensors[t].role)) e.initial[t] = next++;
  }
  e.final = e.initial;
  for (const op& o : g.ops) {
    std::vector<token> in, out;
    for (const tensor_id t : o.in) in.push_back(e.final[t]);
    for (const tensor_id t : o.out) out.push_back(e.final[t] = next++);
    e.in.push_back(std::move(in));
    e.out.push_back(std::move(out));
  }
  return e;
}

// The parts of an operator's result that have been added to an output so far.
struct partial_sum {
  op_id op = 0;
  std::size_t output = 0;
  std::vector<box> added;  // sorted and disjoint
  friend auto operator<=>(const partial_sum&, const partial_sum&) = default;
};

bool overlap(const box& a, const box& b) {
  return overlap(a.batch, b.batch) && overlap(a.channel, b.channel) && overlap(a.row, b.row) &&
         overlap(a.reduction, b.reduction);
}

__extension__ using wide = unsigned __int128;
wide volume_of(const box& b) {
  const auto size = [](const interval& i) { return static_cast<wide>(i.size()); };
  return size(b.batch) * size(b.channel) * size(b.row) * size(b.reduction);
}

// Whether the boxes, which may overlap, cover `all`.
bool covers(const std::vector<box>& boxes, const box& all) {
  if (std::ranges::find(boxes, all) != boxes.end()) return true;
  std::vector<box> rest{all};
  for (const box& b : boxes) {
    std::vector<box> left;
    for (box r : rest) {
      if (!overlap(r, b)) {
        left.push_back(r);
        continue;
      }
      // Splits off the parts before and after `b` along one axis, then goes on with the rest.
      for (interval box::* along : {&box::batch, &box::channel, &box::row, &box::reduction}) {
        box before = r, after = r;
        (before.*along).end = (b.*along).begin;
        (after.*along).begin = (b.*along).end;
        if ((before.*along).size() > 0) left.push_back(before);
        if ((after.*along).size() > 0) left.push_back(after);
        r.*along = {std::max((r.*along).begin, (b.*along).begin), std::min((r.*along).end, (b.*along).end)};
      }
    }
    rest = std::move(left);
    if (rest.empty()) return true;
  }
  return rest.empty();
}

// Runs a plan with tokens instead of values.
class symbolic_execution {
 public:
  symbolic_execution(const graph& g, const memory_plan& plan, const std::vector<strip_layout>& strips)
      : g_(g), plan_(plan), copies_(g, plan, strips), expected_(tokens_in_order(g)) {
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      values_.emplace_back(strips[t].grid.cell_count(), expected_.initial[t]);
    }
    computed_.resize(g.ops.size());
  }

  std::optional<std::string> verify_iteration() {
    for (const action& a : plan_.actions) {
      if (auto wrong = std::visit([&](const auto& x) { return apply(x); }, a)) {
        return to_text(g_, a) + ": " + *wrong;
      }
    }
    return check_end_of_iteration();
  }

 private:
  using defect_text = copy_tracker::error;

  defect_text apply(const advise& x) {
    if (is_managed(plan_.residences[x.tensor])) return {};
    return "tensor " + g_.tensors[x.tensor].name + " has residence " +
           std::string(to_text(plan_.residences[x.tensor])) + " and cannot be advised";
  }
  defect_text apply(const prefetch& x) { return copies_.apply(x); }
  defect_text apply(const evict& x) { return copies_.apply(x); }
  defect_text apply(const discard& x) {
    if (auto wrong = copies_.apply(x)) return wrong;
    for (const std::uint32_t c : copies_.cells_in(x.tensor, region_of(g_.tensors[x.tensor].shape, x.part))) {
      values_[x.tensor][c] = 0;
    }
    return {};
  }

  defect_text apply(const compute& x) {
    const op o = operator_of(g_, x);
    const std::vector<access> touched = accesses_of(g_, o, x.part);
    for (std::size_t i = 0; i < o.in.size(); ++i) {
      if (auto wrong = read(touched[i], token_for(x.op, o.in[i]))) return wrong;
    }
    for (std::size_t i = 0; i < o.out.size(); ++i) {
      if (auto wrong = write(touched[o.in.size() + i], x, i)) return wrong;
    }
    if (!x.cheap_recompute) computed_[x.op].push_back(with_explicit_ranges(g_, o, x.part));
    return {};
  }

  // The token expected for an operand: of an input or, for an output, of the first run.
  token token_for(op_id o, tensor_id what) const {
    const op& first = g_.ops[o];
    const auto in = std::ranges::find(first.in, what);
    if (in != first.in.end()) return expected_.in[o][static_cast<std::size_t>(in - first.in.begin())];
    const auto out = std::ranges::find(first.out, what);
    return expected_.out[o][static_cast<std::size_t>(out - first.out.begin())];
  }

  defect_text read(const access& a, token wanted) const {
    for (const std::uint32_t c : copies_.cells_in(a.tensor, a.where)) {
      if (!copies_.is_readable_by_kernels(a.tensor, c)) {
        const bool stale = copies_.is_stale(a.tensor, c);
        return copies_.describe(a.tensor, c) + (stale ? " holds a stale or unfinished value"
                                                : copies_.has_host_copy(a.tensor, c)
                                                    ? " is not resident"
                                                    : " holds no value (never written, or discarded)");
      }
      if (values_[a.tensor][c] != wanted) {
        return copies_.describe(a.tensor, c) + (values_[a.tensor][c] == 0
                                                    ? " holds no value (never written, or discarded)"
                                                    : " holds a stale or unfinished value");
      }
    }
    return {};
  }

  defect_text write(const access& a, const compute& x, std::size_t output) {
    const op& o = g_.ops[x.op];
    const box part = summation_ranges(g_, o, output, x.part), all = iteration_domain(g_, o);
    for (const std::uint32_t c : copies_.cells_in(a.tensor, a.where)) {
      token& value = values_[a.tensor][c];
      partial_sum sum{x.op, output, {}};
      if (a.mode == access_mode::accumulate) {
        const partial_sum* const before =
            copies_.is_readable_by_kernels(a.tensor, c) ? find_partial_sum(value) : nullptr;
        if (before == nullptr || before->op != x.op || before->output != output) {
          return copies_.describe(a.tensor, c) + " does not hold the sum of parts before this one";
        }
        sum = *before;
        if (std::ranges::any_of(sum.added, [&](const box& b) { return overlap(b, part); })) {
          return copies_.describe(a.tensor, c) + " holds the sum of parts that meet this one";
        }
      }
      sum.added.insert(std::ranges::upper_bound(sum.added, part), part);
      value = token_for_sum(std::move(sum), all);
    }
    copies_.write(a.tensor, a.where);
    return {};
  }

  const partial_sum* find_partial_sum(token t) const {
    return (t & is_partial) == 0 ? nullptr : sums_[t & ~is_partial];
  }

  // The token after a sum: the operator's value once disjoint parts cover all of it.
  token token_for_sum(partial_sum sum, const box& all) {
    wide done = 0;
    for (const box& b : sum.added) done += volume_of(b);
    if (done == volume_of(all)) return expected_.out[sum.op][sum.output];
    const auto [at, is_new] = tokens_.emplace(std::move(sum), sums_.size());
    if (is_new) sums_.push_back(&at->first);
    return is_partial | at->second;
  }

  defect_text check_end_of_iteration() const {
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      if (!covers(computed_[o], iteration_domain(g_, g_.ops[o]))) {
        return "operator " + g_.ops[o].name + " is not computed, or not all of its parts are";
      }
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (!survives(g_.tensors[t].role)) continue;
      for (std::uint32_t c = 0; c < values_[t].size(); ++c) {
        if (auto wrong = check_cell_at_end(t, c)) return wrong;
      }
    }
    return {};
  }

  // Checks that the cell's state at the end allows the next iteration to start.
  defect_text check_cell_at_end(tensor_id t, std::uint32_t c) const {
    const bool at_home = is_pinned(plan_.residences[t]);
    const bool there = at_home ? copies_.has_host_copy(t, c) : copies_.is_readable_by_kernels(t, c);
    if (there && values_[t][c] == expected_.final[t]) return {};
    return "at the end of the iteration " + copies_.describe(t, c) + " does not hold its final value" +
           (at_home ? " at home" : "");
  }

  const graph& g_;
  const memory_plan& plan_;
  copy_tracker copies_;
  values_in_order expected_;
  std::vector<std::vector<token>> values_;  // per tensor, per cell
  std::vector<std::vector<box>> computed_;  // per operator
  std::map<partial_sum, std::size_t> tokens_;
  std::vector<const partial_sum*> sums_;  // indexed by the index in their token
};

// Checks that every index lies within the graph and the plan.
std::optional<std::string> index_defect(const graph& g, const memory_plan& plan) {
  if (plan.residences.size() != g.tensors.size()) {
    return "the plan gives " + std::to_string(plan.residences.size()) + " residences for " +
           std::to_string(g.tensors.size()) + " tensors";
  }
  for (const action& a : plan.actions) {
    const bool good = std::visit(overloaded{[&](const compute& x) { return x.op < g.ops.size(); },
                                            [&](const auto& x) { return x.tensor < g.tensors.size(); }},
                                 a);
    if (!good) return to_text(g, a) + ": no such tensor or operator";
  }
  if (!std::is_sorted(plan.joins.begin(), plan.joins.end()) ||
      (!plan.joins.empty() && plan.joins.back() > plan.actions.size())) {
    return "joins do not ascend, or lie beyond the plan's " + std::to_string(plan.actions.size()) +
           " actions";
  }
  return {};
}

}  // namespace

std::optional<std::string> defect_of(const graph& g, const memory_plan& plan) {
  if (auto wrong = index_defect(g, plan)) return wrong;
  try {
    const std::vector<strip_layout> strips = make_strip_layouts(g, plan);
    return symbolic_execution(g, plan, strips).verify_iteration();
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
}

verified_plan verify_plan(const graph& g, memory_plan plan) {
  if (const auto wrong = defect_of(g, plan)) throw std::invalid_argument(*wrong);
  return {g, std::move(plan)};
}

}  // namespace um
