#include "core/verify.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

namespace um {
namespace {

// A token stands for a value: equal tokens are equal bits. 0 is "no value".
using token = std::uint64_t;
constexpr token is_partial = token{1} << 63;  // of an unfinished sum; the rest is its number

// The tokens that each operator reads and writes when the graph runs in order.
struct expectation {
  std::vector<std::vector<token>> in, out;  // per operator, per operand
  std::vector<token> initial, final;        // per tensor; 0 where there is none
};

expectation expect(const graph& g) {
  expectation e;
  token next = 1;
  e.initial.assign(g.tensors.size(), 0);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (persists(g.tensors[t].use)) e.initial[t] = next++;
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

// Parts of the sum that an output is, one for each part of its operator: what has been added so far.
struct partial_sum {
  op_id of = 0;
  std::size_t output = 0;
  std::vector<box> added;  // sorted; none meet
  friend auto operator<=>(const partial_sum&, const partial_sum&) = default;
};

bool meet(const box& a, const box& b) {
  return meet(a.batch, b.batch) && meet(a.channel, b.channel) && meet(a.row, b.row) &&
         meet(a.reduction, b.reduction);
}

__extension__ using wide = unsigned __int128;
wide volume_of(const box& b) {
  const auto size = [](const interval& i) { return static_cast<wide>(i.size()); };
  return size(b.batch) * size(b.channel) * size(b.row) * size(b.reduction);
}

// Do the boxes, which may overlap, cover `all`?
bool cover(const std::vector<box>& boxes, const box& all) {
  if (std::ranges::find(boxes, all) != boxes.end()) return true;
  std::vector<box> rest{all};
  for (const box& b : boxes) {
    std::vector<box> left;
    for (box r : rest) {
      if (!meet(r, b)) {
        left.push_back(r);
        continue;
      }
      // What lies before and after b along one axis, then go on with what is between.
      for (interval box::*along : {&box::batch, &box::channel, &box::row, &box::reduction}) {
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

struct copies {
  token device = 0, host = 0;
};

class symbolic_machine {
 public:
  symbolic_machine(const graph& g, const memory_plan& plan)
      : g_(g), plan_(plan), cells_(um::cells_of(g, plan)), e_(expect(g)) {
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      const token value = e_.initial[t];
      const bool on_device = plan.home[t] == residence::device;
      parts_.emplace_back(cells_[t].count(), on_device ? copies{value, 0} : copies{0, value});
    }
  }

  std::optional<std::string> run() {
    computed_.assign(g_.ops.size(), {});
    for (const action& a : plan_.actions) {
      if (auto wrong = std::visit([&](const auto& x) { return apply(x); }, a))
        return to_text(g_, a) + ": " + *wrong;
    }
    return end_iteration();
  }

 private:
  using finding = std::optional<std::string>;

  finding apply(const advise& x) {
    if (!is_managed(plan_.home[x.what])) return not_movable(x.what, "advised");
    return {};
  }

  finding apply(const prefetch& x) {
    const residence home = plan_.home[x.what];
    if (!is_copied(home) && !is_managed(home)) return not_movable(x.what, "prefetched");
    return for_parts(x.what, x.part, [&](copies& c) -> finding {
      if (home == residence::managed) {
        if (c.device == 0) c = {c.host, 0};
        return {};
      }
      if (home == residence::twinned && (c.device != 0 || c.host == 0)) return {};  // room alone
      if (c.device != 0) return "it is resident already";
      if (c.host == 0) return "its home holds no value";
      c.device = c.host;
      return {};
    });
  }

  finding apply(const evict& x) {
    const residence home = plan_.home[x.what];
    if (!is_copied(home) && !is_managed(home)) return not_movable(x.what, "evicted");
    return for_parts(x.what, x.part, [&](copies& c) -> finding {
      if (home == residence::managed) {
        if (c.device != 0) c = {0, c.device};
        return {};
      }
      if (c.device == 0 && home == residence::twinned) return {};  // room alone
      if (c.device == 0) return "it is not resident";
      c = {0, c.device};
      return {};
    });
  }

  // Managed memory may hold what an earlier iteration left.
  finding apply(const discard& x) {
    return for_parts(x.what, x.part, [&](copies& c) -> finding {
      if (c.device == 0 && c.host == 0 && !is_managed(plan_.home[x.what]))
        return "it holds no value to discard";
      c = {};
      return {};
    });
  }

  finding apply(const compute& x) {
    const op& o = g_.ops[x.what];
    const std::vector<access> touched = accesses_of(g_, o, x.part);
    for (std::size_t i = 0; i < o.in.size(); ++i) {
      if (auto wrong = read(touched[i], e_.in[x.what][i])) return wrong;
    }
    for (std::size_t i = 0; i < o.out.size(); ++i) {
      if (auto wrong = write(touched[o.in.size() + i], x, i)) return wrong;
    }
    computed_[x.what].push_back(resolved(g_, o, x.part));
    return {};
  }

  finding read(const access& a, token wanted) {
    for (const std::uint32_t p : cells_of(a.what, a.where)) {
      copies& c = parts_[a.what][p];
      if (plan_.home[a.what] == residence::managed && c.device == 0) c = {c.host, 0};
      const token have = plan_.home[a.what] == residence::host ? c.host : c.device;
      if (have == wanted) continue;
      const std::string which = describe(a.what, p);
      if (have != 0) return which + " holds a stale or unfinished value";
      return which + (c.host != 0 ? " is not resident" : " holds no value (never written, or discarded)");
    }
    return {};
  }

  // The box of the sum that a part adds to an output, and all of the sum.
  struct summand {
    box part, all;
  };

  finding write(const access& a, const compute& x, std::size_t output) {
    const op& o = g_.ops[x.what];
    const summand s{summed_part(g_, o, output, x.part), domain_of(g_, o)};
    for (const std::uint32_t p : cells_of(a.what, a.where)) {
      copies& c = parts_[a.what][p];
      token& place = plan_.home[a.what] == residence::host ? c.host : c.device;
      if (plan_.home[a.what] == residence::managed && c.device == 0) c = {c.host, 0};
      partial_sum sum{x.what, output, {}};
      if (a.mode == access_mode::accumulate) {
        const partial_sum* const before = sum_at(place);
        if (before == nullptr || before->of != x.what || before->output != output) {
          return describe(a.what, p) + " does not hold the sum of parts before this one";
        }
        sum = *before;
        if (std::ranges::any_of(sum.added, [&](const box& b) { return meet(b, s.part); })) {
          return describe(a.what, p) + " holds the sum of parts that meet this one";
        }
      }
      sum.added.insert(std::ranges::upper_bound(sum.added, s.part), s.part);
      c = {};
      place = token_of(std::move(sum), s.all);
    }
    return {};
  }

  const partial_sum* sum_at(token t) const {
    return (t & is_partial) == 0 ? nullptr : sums_[t & ~is_partial];
  }

  // The operator's value once parts that do not meet make up all of it.
  token token_of(partial_sum sum, const box& all) {
    wide done = 0;
    for (const box& b : sum.added) done += volume_of(b);
    if (done == volume_of(all)) return e_.out[sum.of][sum.output];
    const auto [at, is_new] = tokens_.emplace(std::move(sum), sums_.size());
    if (is_new) sums_.push_back(&at->first);
    return is_partial | at->second;
  }

  finding end_iteration() {
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      if (!cover(computed_[o], domain_of(g_, g_.ops[o]))) {
        return "operator " + g_.ops[o].name + " is not computed, or not all of its parts are";
      }
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      for (std::uint32_t p = 0; p < parts_[t].size(); ++p) {
        if (auto wrong = end_part(t, p)) return wrong;
      }
    }
    return {};
  }

  // What must be left: then the next iteration starts as this one did.
  finding end_part(tensor_id t, std::uint32_t p) const {
    const copies& c = parts_[t][p];
    const residence home = plan_.home[t];
    const bool at_home = is_pinned(home);
    const token left = home == residence::managed ? std::max(c.device, c.host) : at_home ? c.host : c.device;
    if (survives(g_.tensors[t].use) && left != e_.final[t]) {
      return "at the end of the iteration " + describe(t, p) + " does not hold its final value" +
             (at_home ? " at home" : "");
    }
    return {};
  }

  template <class F>
  finding for_parts(tensor_id t, const box& part, F&& f) {
    for (const std::uint32_t p : cells_of(t, region_of(g_.tensors[t].shape, part))) {
      if (finding wrong = f(parts_[t][p])) return describe(t, p) + ": " + *wrong;
    }
    return {};
  }

  std::vector<std::uint32_t> cells_of(tensor_id t, const region& r) const {
    return numbers_of(cells_[t], cells_in(cells_[t], r));
  }

  finding not_movable(tensor_id t, std::string_view verb) const {
    return "tensor " + g_.tensors[t].name + " has residence " + std::string(to_text(plan_.home[t])) +
           " and cannot be " + std::string(verb);
  }

  std::string describe(tensor_id t, std::uint32_t p) const {
    std::string text = "tensor " + g_.tensors[t].name;
    if (!cells_[t].is_whole()) text += " " + to_text(g_.tensors[t].shape, region_of(cells_[t], p));
    return text;
  }

  const graph& g_;
  const memory_plan& plan_;
  std::vector<cell_grid> cells_;
  expectation e_;
  std::vector<std::vector<copies>> parts_;  // per tensor, per cell
  std::vector<std::vector<box>> computed_;  // per operator
  std::map<partial_sum, std::size_t> tokens_;
  std::vector<const partial_sum*> sums_;  // by the number in their token
};

// Ids within bounds, so that the rest may index freely.
std::optional<std::string> out_of_bounds(const graph& g, const memory_plan& plan) {
  if (plan.home.size() != g.tensors.size()) {
    return "the plan gives " + std::to_string(plan.home.size()) + " residences for " +
           std::to_string(g.tensors.size()) + " tensors";
  }
  for (const action& a : plan.actions) {
    const bool good = std::visit(overloaded{[&](const compute& x) { return x.what < g.ops.size(); },
                                            [&](const auto& x) { return x.what < g.tensors.size(); }},
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
  if (auto wrong = out_of_bounds(g, plan)) return wrong;
  try {
    return symbolic_machine(g, plan).run();
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
}

}  // namespace um
