// Looks at lowered plans byte by byte: in list order every read finds the tensor it is meant to
// find, and no two steps of different lanes that could run at the same time touch the same bytes,
// unless both only read them. Plans are those of every strategy, and random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>

#include "core/lower.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr tensor_id nobody = std::numeric_limits<tensor_id>::max();

struct use {
  space where;
  byte_count begin, end;
  tensor_id what;  // whose bytes; nobody: workspace, or bytes given up
  bool reads, writes;
};

void add_operand(std::vector<use>& all, const graph& g, const operand& o) {
  const std::vector<range> runs = runs_of(g.tensors[o.what.what], o.what.where);
  for (const range& r : runs) {
    const byte_count begin = o.at.offset + r.offset - runs.front().offset;
    all.push_back({o.at.where, begin, begin + r.bytes, o.what.what, o.what.mode != access_mode::write,
                   o.what.mode != access_mode::read});
  }
}

tensor_id moved_by(const action& a) {
  return std::visit(overloaded{[](const compute&) { return nobody; }, [](const auto& x) { return x.what; }},
                    a);
}

void add_copy(std::vector<use>& all, const pitched_copy& c, tensor_id what) {
  for (byte_count z = 0; z < c.depth; ++z) {
    for (byte_count y = 0; y < c.height; ++y) {
      const byte_count from = c.from.offset + z * c.from_slice + y * c.from_pitch;
      const byte_count to = c.to.offset + z * c.to_slice + y * c.to_pitch;
      all.push_back({c.from.where, from, from + c.width, what, true, false});
      all.push_back({c.to.where, to, to + c.width, what, false, true});
    }
  }
}

// What a step does to memory. Moving managed data changes no value, so it is no use.
std::vector<use> uses_of(const graph& g, const step& s) {
  std::vector<use> all;
  for (const operand& o : s.operands) add_operand(all, g, o);
  if (s.workspace_bytes > 0) {
    const byte_count begin = s.workspace_offset;
    all.push_back({space::device, begin, begin + s.workspace_bytes, nobody, false, true});
  }
  if (!s.needed) return all;
  const bool twinned = s.home == residence::twinned;
  const auto give_room = [&] {  // populated or discarded: what was there is gone
    for (const range& r : s.room) {
      all.push_back({space::managed, r.offset, r.offset + r.bytes, nobody, false, true});
    }
  };
  if (std::holds_alternative<prefetch>(s.what)) give_room();
  for (const pitched_copy& c : s.copies) add_copy(all, c, moved_by(s.what));
  for (const movement& m : s.moves) {
    const byte_count there = m.device.offset, home = m.pinned_offset;
    if (s.home == residence::managed || std::holds_alternative<discard>(s.what)) {
      if (std::holds_alternative<discard>(s.what) && is_managed(s.home)) {
        all.push_back({space::managed, there, there + m.device.bytes, nobody, false, true});
      }
      continue;
    }
    const auto* const in = std::get_if<prefetch>(&s.what);
    const auto* const out = std::get_if<evict>(&s.what);
    if (in == nullptr && out == nullptr) continue;
    const tensor_id t = in != nullptr ? in->what : out->what;
    const space here = twinned ? space::managed : space::device;
    all.push_back({here, there, there + m.device.bytes, t, out != nullptr, in != nullptr});
    all.push_back({space::pinned, home, home + m.device.bytes, t, in != nullptr, out != nullptr});
  }
  if (std::holds_alternative<evict>(s.what)) give_room();
  return all;
}

// --- whose bytes lie where ---

class ownership {
 public:
  void give(space where, byte_count begin, byte_count end, tensor_id to) {
    auto& map = of_[static_cast<std::size_t>(where)];
    split(map, begin);
    split(map, end);
    map.erase(map.lower_bound(begin), map.lower_bound(end));
    map[begin] = {end, to};
  }

  bool all_of(space where, byte_count begin, byte_count end, tensor_id owner) const {
    const auto& map = of_[static_cast<std::size_t>(where)];
    auto at = map.upper_bound(begin);
    if (at == map.begin()) return false;
    for (--at; begin < end; ++at) {
      if (at == map.end() || at->first > begin || at->second.end <= begin || at->second.owner != owner)
        return false;
      begin = at->second.end;
    }
    return true;
  }

 private:
  struct stretch {
    byte_count end = 0;
    tensor_id owner = 0;
  };
  static void split(std::map<byte_count, stretch>& map, byte_count at) {
    auto next = map.upper_bound(at);
    if (next == map.begin()) return;
    const auto before = std::prev(next);
    if (before->first == at || before->second.end <= at) return;
    map[at] = before->second;
    before->second.end = at;
  }

  std::array<std::map<byte_count, stretch>, 3> of_;
};

void expect_every_read_finds_its_tensor(const graph& g, const execution_plan& e) {
  ownership bytes;
  const auto place = [&](tensor_id t, const address& at) {
    bytes.give(at.where, at.offset, at.offset + bytes_of(g.tensors[t]), t);
  };
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (persists(g.tensors[t].use)) place(t, e.at_start[t]);
  }
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (const step& s : e.steps) {
      const std::vector<use> uses = uses_of(g, s);
      for (const use& u : uses) {
        if (u.reads) {
          ASSERT_TRUE(bytes.all_of(u.where, u.begin, u.end, u.what))
              << to_text(g, s.what) << " reads " << g.tensors[u.what].name;
        }
      }
      for (const use& u : uses) {
        if (u.writes) bytes.give(u.where, u.begin, u.end, u.what);
      }
    }
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      if (!survives(g.tensors[t].use)) continue;
      const address& at = e.at_end[t];
      ASSERT_TRUE(bytes.all_of(at.where, at.offset, at.offset + bytes_of(g.tensors[t]), t))
          << "at the end: " << g.tensors[t].name;
    }
  }
}

// --- who may run beside whom ---

// For each step and lane, the last step of that lane that has ended when the step begins.
std::vector<std::array<std::int32_t, lane_count>> ended_before(const execution_plan& e) {
  std::vector<std::array<std::int32_t, lane_count>> seen(e.steps.size());
  std::array<std::int32_t, lane_count> last{no_step, no_step, no_step};
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    const auto mine = static_cast<std::size_t>(e.steps[i].where);
    seen[i] = {no_step, no_step, no_step};
    std::array<std::int32_t, lane_count> direct = e.steps[i].after;
    direct[mine] = last[mine];
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (direct[l] == no_step) continue;
      for (std::size_t k = 0; k < lane_count; ++k) {
        seen[i][k] = std::max(seen[i][k], seen[static_cast<std::size_t>(direct[l])][k]);
      }
      seen[i][l] = std::max(seen[i][l], direct[l]);
    }
    last[mine] = static_cast<std::int32_t>(i);
  }
  return seen;
}

bool collide(const use& a, const use& b) {
  return (a.writes || b.writes) && a.where == b.where && a.begin < b.end && b.begin < a.end;
}

void expect_no_races(const graph& g, const execution_plan& e) {
  const auto seen = ended_before(e);
  std::vector<std::vector<use>> uses;
  for (const step& s : e.steps) uses.push_back(uses_of(g, s));
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto lane_of_j = static_cast<std::size_t>(e.steps[j].where);
      if (seen[i][lane_of_j] >= static_cast<std::int32_t>(j)) continue;
      for (const use& a : uses[i]) {
        for (const use& b : uses[j]) {
          ASSERT_FALSE(collide(a, b))
              << to_text(g, e.steps[i].what) << " may run beside " << to_text(g, e.steps[j].what);
        }
      }
    }
  }
}

profile costs_with_workspaces(const graph& g) {
  profile costs;
  for (op_id o = 0; o < g.ops.size(); ++o) costs.push_back({1000, o % 3 * 700'001, "test"});
  return costs;
}

bool only_advises(const strategy& s) {
  return std::ranges::any_of(hint_table(), [&](const hint_strategy& row) {
    return row.name == s.name && !row.rules.empty() && std::ranges::all_of(row.rules, [](const hint_rule& r) {
             return std::holds_alternative<advice_rule>(r.what);
           });
  });
}

// A small network by its label.
struct races : ::testing::TestWithParam<std::string> {
  graph g = build(small_networks().at(GetParam()));
  profile costs = costs_with_workspaces(g);
  machine on;
};

TEST_P(races, no_strategy_has_any) {
  std::vector<strategy> all(planners().begin(), planners().end());
  all.insert(all.end(), hints().begin(), hints().end());
  const byte_count footprint = footprint_of(g, costs).total;
  int checked = 0;
  for (const strategy& s : all) {
    if (only_advises(s)) continue;  // plans as managed does
    for (const byte_count percent : {200U, 80U, 45U}) {
      SCOPED_TRACE(s.name + " " + std::to_string(percent));
      knob_values knobs = complete(s, {});
      if (knobs.contains("trials")) knobs["trials"] = 1;
      if (knobs.contains("trials") && percent != 45) continue;  // long plans
      const problem p{g, costs, on, footprint * percent / 100, pressure::plan, knobs};
      try {
        const execution_plan e = lower(p, s.plan(p), s.placed_by);
        expect_every_read_finds_its_tensor(g, e);
        expect_no_races(g, e);
        ++checked;
      } catch (const infeasible&) {
        continue;
      }
    }
  }
  EXPECT_GE(checked, 10);
}

// --- random plans ---

class random_plan {
 public:
  random_plan(const graph& g, std::uint32_t seed) : g_(g), dice_(seed) {
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      plan_.home.push_back(std::array{residence::device, residence::staged, residence::staged,
                                      residence::managed, residence::host}[below(5)]);
      parts_.push_back(g.tensors[t].shape.n % 2 == 0 ? 1 + below(2) : 1);
      here_.push_back(false);
    }
  }

  memory_plan make() {
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      for (const tensor_id t : g_.ops[o].in) fetch(t);
      run(o);
      for (const tensor_id t : g_.ops[o].in) here_[t] = true;
      for (const tensor_id t : g_.ops[o].out) here_[t] = true;
      for (tensor_id t = 0; t < g_.tensors.size(); ++t) after(o, t);
    }
    return plan_;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(dice_() % n); }

  // Whole, or in two slices of the batch where the operator can be cut so.
  void run(op_id o) {
    try {
      if (below(2) == 0) throw std::invalid_argument("whole");
      const std::int64_t images = domain_of(g_, g_.ops[o]).batch.end;
      static_cast<void>(accesses_of(g_, g_.ops[o], batch_part(images, 0, 2)));
      for (const std::uint32_t half : {0U, 1U}) {
        plan_.actions.emplace_back(compute{o, batch_part(images, half, 2)});
      }
    } catch (const std::invalid_argument&) {
      plan_.actions.emplace_back(compute{o, {}});
    }
  }

  template <class Move>
  void move(tensor_id t) {
    for (std::uint32_t p = 0; p < parts_[t]; ++p)
      plan_.actions.emplace_back(Move{t, batch_part(g_.tensors[t].shape.n, p, parts_[t])});
    here_[t] = std::is_same_v<Move, prefetch>;
  }

  void fetch(tensor_id t) {
    if (plan_.home[t] == residence::staged && !here_[t]) move<prefetch>(t);
    if (plan_.home[t] == residence::managed && below(3) == 0) move<prefetch>(t);
  }

  void after(op_id o, tensor_id t) {
    const bool movable = plan_.home[t] == residence::staged || plan_.home[t] == residence::managed;
    if (!here_[t]) return;
    bool again = false;
    for (op_id k = o + 1; k < g_.ops.size(); ++k) {
      for (const auto* operands : {&g_.ops[k].in, &g_.ops[k].out}) {
        again = again || std::find(operands->begin(), operands->end(), t) != operands->end();
      }
    }
    const bool last = o + 1 == g_.ops.size();
    const bool must = plan_.home[t] == residence::staged && (survives(g_.tensors[t].use) && (last || !again));
    if (!again && !survives(g_.tensors[t].use)) {
      if (below(2) == 0) plan_.actions.emplace_back(discard{t, {}});
      here_[t] = false;
    } else if (must || (movable && below(4) == 0)) {
      move<evict>(t);
    }
  }

  const graph& g_;
  std::mt19937 dice_;
  memory_plan plan_;
  std::vector<std::uint32_t> parts_;
  std::vector<bool> here_;
};

TEST_P(races, random_plans_have_none) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const problem p{g, costs, on, std::numeric_limits<byte_count>::max(), pressure::none, {}};
    const memory_plan plan = random_plan(g, seed).make();
    ASSERT_EQ(defect_of(g, plan), std::nullopt);
    const execution_plan e = lower(p, plan, seed % 2 == 0 ? packers::searched : packers::first_fit);
    expect_every_read_finds_its_tensor(g, e);
    expect_no_races(g, e);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(networks, races, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
