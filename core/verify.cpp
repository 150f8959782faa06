#include "core/verify.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace um {
namespace {

// A token stands for a value: equal tokens are equal bits. 0 is "no value".
using token = std::uint64_t;

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

// The value of an output to which the first `done` of `of` slices have been added.
token partial(op_id o, const slice& s, std::uint32_t done) {
  return (token{1} << 63) | (static_cast<token>(s.along) << 61) | (static_cast<token>(o) << 36) |
         (static_cast<token>(s.of) << 18) | done;
}

struct copies {
  token device = 0, host = 0;
};

class symbolic_machine {
 public:
  symbolic_machine(const graph& g, const memory_plan& plan)
      : g_(g), plan_(plan), cuts_(cuts_of(g, plan)), e_(expect(g)) {
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      const token value = e_.initial[t];
      const bool on_device = plan.home[t] == residence::device;
      parts_.emplace_back(cuts_[t].of, on_device ? copies{value, 0} : copies{0, value});
    }
  }

  std::optional<std::string> run_iteration() {
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
      if (auto wrong = write(touched[o.in.size() + i], x, e_.out[x.what][i])) return wrong;
    }
    computed_[x.what][{x.part.along, x.part.of}].insert(x.part.part);
    return {};
  }

  finding read(const access& a, token wanted) {
    const part_run run = parts_of(g_.tensors[a.what].shape, cuts_[a.what], a.where);
    for (std::uint32_t p = run.begin; p < run.end; ++p) {
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

  finding write(const access& a, const compute& x, token value) {
    const part_run run = parts_of(g_.tensors[a.what].shape, cuts_[a.what], a.where);
    const bool summed = !is_whole(x.part) && is_whole(g_.tensors[a.what].shape, a.where);
    for (std::uint32_t p = run.begin; p < run.end; ++p) {
      copies& c = parts_[a.what][p];
      token& place = plan_.home[a.what] == residence::host ? c.host : c.device;
      if (plan_.home[a.what] == residence::managed && c.device == 0) c = {c.host, 0};
      if (a.mode == access_mode::accumulate && place != partial(x.what, x.part, x.part.part)) {
        return describe(a.what, p) + " does not hold the sum of the slices before this one";
      }
      const bool complete = !summed || x.part.part + 1 == x.part.of;
      const token now = complete ? value : partial(x.what, x.part, x.part.part + 1);
      c = {};
      place = now;
    }
    return {};
  }

  finding end_iteration() {
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      const bool done = std::any_of(computed_[o].begin(), computed_[o].end(), [](const auto& slices) {
        return slices.second.size() == slices.first.second;
      });
      if (!done) return "operator " + g_.ops[o].name + " is not computed, or not all of its slices are";
    }
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      for (std::uint32_t p = 0; p < cuts_[t].of; ++p) {
        if (auto wrong = end_part(t, p)) return wrong;
      }
    }
    return {};
  }

  // Checks what must be left, and turns it into the start of the next iteration.
  finding end_part(tensor_id t, std::uint32_t p) {
    copies& c = parts_[t][p];
    const role use = g_.tensors[t].use;
    const residence home = plan_.home[t];
    const bool at_home = is_pinned(home);
    const token left = home == residence::managed ? std::max(c.device, c.host) : at_home ? c.host : c.device;
    if (survives(use) && left != e_.final[t]) {
      return "at the end of the iteration " + describe(t, p) + " does not hold its final value" +
             (at_home ? " at home" : "");
    }
    if (!persists(use)) {
      c = {};
    } else if (home == residence::managed) {
      (c.device != 0 ? c.device : c.host) = e_.initial[t];
    } else {
      c = at_home ? copies{0, e_.initial[t]} : copies{e_.initial[t], 0};
    }
    return {};
  }

  template <class F>
  finding for_parts(tensor_id t, const slice& s, F&& f) {
    const part_run run = parts_of(cuts_[t], s);
    for (std::uint32_t p = run.begin; p < run.end; ++p) {
      if (finding wrong = f(parts_[t][p])) return describe(t, p) + ": " + *wrong;
    }
    return {};
  }

  finding not_movable(tensor_id t, std::string_view verb) const {
    return "tensor " + g_.tensors[t].name + " has residence " + std::string(to_text(plan_.home[t])) +
           " and cannot be " + std::string(verb);
  }

  std::string describe(tensor_id t, std::uint32_t p) const {
    std::string text = "tensor " + g_.tensors[t].name;
    if (cuts_[t].of > 1) text += " (part " + std::to_string(p) + " of " + std::to_string(cuts_[t].of) + ")";
    return text;
  }

  const graph& g_;
  const memory_plan& plan_;
  std::vector<cut> cuts_;
  expectation e_;
  std::vector<std::vector<copies>> parts_;
  std::vector<std::map<std::pair<axis, std::uint32_t>, std::set<std::uint32_t>>> computed_;
};

// Ids and slices within bounds, so that the rest may index freely.
std::optional<std::string> out_of_bounds(const graph& g, const memory_plan& plan) {
  if (plan.home.size() != g.tensors.size()) {
    return "the plan gives " + std::to_string(plan.home.size()) + " residences for " +
           std::to_string(g.tensors.size()) + " tensors";
  }
  for (const action& a : plan.actions) {
    const bool good =
        std::visit(overloaded{
                       [&](const advise& x) { return x.what < g.tensors.size(); },
                       [&](const compute& x) {
                         return x.what < g.ops.size() && x.part.part < x.part.of && x.part.of < (1U << 18);
                       },
                       [&](const auto& x) { return x.what < g.tensors.size() && x.part.part < x.part.of; },
                   },
                   a);
    if (!good) return to_text(g, a) + ": no such tensor, operator or part";
  }
  return {};
}

}  // namespace

std::optional<std::string> defect_of(const graph& g, const memory_plan& plan) {
  if (auto wrong = out_of_bounds(g, plan)) return wrong;
  try {
    symbolic_machine machine(g, plan);
    if (auto wrong = machine.run_iteration()) return wrong;
    if (auto wrong = machine.run_iteration()) return "in the second iteration: " + *wrong;
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return {};
}

}  // namespace um
