#include "networks/recompute.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/compute.hpp"
#include "networks/compact.hpp"

namespace um {
namespace {

constexpr std::int64_t most_products = 32;  // an element of a convolution's output

// --- how many bytes are alive when ---

constexpr std::int64_t never = -1;

// First and last operator that touches a tensor.
struct stretch {
  std::int64_t first = never, last = never;
};

std::vector<stretch> stretches_of(const graph& g) {
  std::vector<stretch> all(g.tensors.size());
  const auto end = static_cast<std::int64_t>(g.ops.size()) - 1;
  for (std::int64_t i = 0; i <= end; ++i) {
    const op& o = g.ops[static_cast<std::size_t>(i)];
    for (const auto* operands : {&o.in, &o.out}) {
      for (const tensor_id id : *operands) {
        stretch& s = all[id];
        if (s.first == never) s.first = i;
        s.last = i;
      }
    }
  }
  for (std::size_t id = 0; id < all.size(); ++id) {
    const role use = g.tensors[id].use;
    if (persists(use)) all[id].first = 0;
    if (survives(use) && all[id].first != never) all[id].last = end;
  }
  return all;
}

// Bytes alive while each operator runs. An output that takes an input's place is counted once.
std::vector<byte_count> live_bytes(const graph& g, const std::vector<byte_count>& size) {
  const std::vector<stretch> all = stretches_of(g);
  std::vector<byte_count> live(g.ops.size() + 1);
  for (std::size_t id = 0; id < all.size(); ++id) {
    if (all[id].first == never) continue;
    live[static_cast<std::size_t>(all[id].first)] += size[id];
    live[static_cast<std::size_t>(all[id].last) + 1] -= size[id];
  }
  for (std::size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    const op& o = g.ops[i];
    if (!o.alias) continue;
    const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
    const bool ends = all[from].last == static_cast<std::int64_t>(i) && !survives(g.tensors[from].use);
    if (from != to && ends && size[from] == size[to]) live[i] -= size[to];
  }
  return live;
}

std::vector<byte_count> sizes_of(const graph& g) {
  std::vector<byte_count> sizes;
  for (const tensor& t : g.tensors) sizes.push_back(round_up(bytes_of(t), arena_alignment));
  return sizes;
}

byte_count most_of(const std::vector<byte_count>& live) {
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

// --- what is cheap to have again ---

// The operator that gives the output `what` of `o` a second time, or nothing.
std::optional<op> cheap_copy(const graph& g, const op& o, tensor_id what) {
  if (o.out[0] != what || g.tensors[what].use != role::activation) return std::nullopt;
  if (std::optional<op> second = repetition_of(o)) return second;
  op copy = o;
  copy.alias.reset();
  const bool cheap =
      std::visit(overloaded{[](const normalize&) { return true; }, [](const relu&) { return true; },
                            [](const add&) { return true; }, [](const cast&) { return true; },
                            [](const concat&) { return true; },
                            [&](const convolution&) {
                              const dims& w = g.tensors[o.in[1]].shape;
                              return w.c * w.h * w.w <= most_products;
                            },
                            [](const auto&) { return false; }},
                 o.what);
  return cheap ? std::optional(std::move(copy)) : std::nullopt;
}

// A tensor that is computed again just before operator `next`, and is gone since operator `before`.
struct absence {
  tensor_id what = 0;
  op again;
  std::size_t before = 0, next = 0;
  byte_count traffic = 0;  // bytes that computing it again reads and writes
};

struct repetition {
  tensor_id first = 0, again = 0;
  byte_count traffic = 0;
};

// Shortens the lifetimes that cover the peak, one by one, cheapest first, while that lowers it.
class shortening {
 public:
  explicit shortening(const graph& g) : graph_(g), size_(sizes_of(g)) {}

  graph run(double most_traffic) {
    graph best = graph_;
    std::vector<repetition> taken;
    const byte_count first = most_of(live_bytes(graph_, size_));
    byte_count least = first;
    while (step()) {
      const byte_count now = most_of(live_bytes(graph_, size_));
      if (now >= least || traffic() > most_traffic * static_cast<double>(first - now)) continue;
      least = now;
      best = graph_;
      taken = repetitions_;
    }
    graph_ = std::move(best);
    undo_needless(std::move(taken), least);
    return std::move(graph_);
  }

 private:
  struct height {
    byte_count most = 0;
    std::int64_t times = 0;
    auto operator<=>(const height&) const = default;
  };

  static height height_of(const std::vector<byte_count>& live) {
    const byte_count most = most_of(live);
    return {most, std::ranges::count(live, most)};
  }

  double traffic() const {
    double sum = 0;
    for (const repetition& r : repetitions_) sum += static_cast<double>(r.traffic);
    return sum;
  }

  // One lifetime less across the peak; false if none lowers it or how often it is reached.
  bool step() {
    stretch_ = stretches_of(graph_);
    const std::vector<byte_count> live = live_bytes(graph_, size_);
    const height now = height_of(live);
    const auto at = static_cast<std::size_t>(std::ranges::find(live, now.most) - live.begin());
    for (const absence& a : absences_across(at)) {
      if (height_of(without(live, a)) >= now) continue;
      apply(a);
      return true;
    }
    return false;
  }

  // What could be absent while operator `at` runs, cheapest first.
  std::vector<absence> absences_across(std::size_t at) const {
    constexpr auto nowhere = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> before(graph_.tensors.size(), nowhere), next(graph_.tensors.size(), nowhere);
    std::vector<const op*> writer(graph_.tensors.size());
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const op& o = graph_.ops[i];
      for (const auto* operands : {&o.in, &o.out}) {
        for (const tensor_id id : *operands) {
          if (i <= at) before[id] = i;
          if (i >= at && next[id] == nowhere) next[id] = i;
        }
      }
      for (const tensor_id id : o.out) writer[id] = &o;
    }
    std::vector<absence> all;
    for (tensor_id id = 0; id < before.size(); ++id) {
      if (before[id] == nowhere || next[id] == nowhere || before[id] == at) continue;
      if (writer[id] == nullptr) continue;
      auto copy = cheap_copy(graph_, *writer[id], id);
      if (!copy) continue;
      byte_count traffic = size_[id];
      for (const tensor_id in : copy->in) traffic += size_[in];
      all.push_back({id, std::move(*copy), before[id], next[id], traffic});
    }
    // A byte less at the peak, which what has to wait there for the repetition takes up in part.
    const auto price = [&](const absence& a) {
      byte_count waiting = 0;
      for (const tensor_id in : a.again.in) {
        if (static_cast<std::size_t>(stretch_[in].last) < at) waiting += size_[in];
      }
      const byte_count less = size_[a.what] - std::min(waiting, size_[a.what]);
      return static_cast<double>(a.traffic) / static_cast<double>(std::max<byte_count>(less, 1));
    };
    std::ranges::stable_sort(all, [&](const absence& a, const absence& z) {
      return std::pair(price(a), size_[z.what]) < std::pair(price(z), size_[a.what]);
    });
    return all;
  }

  // The bytes alive with `a` absent; the last entry is those of the operator computed again.
  std::vector<byte_count> without(std::vector<byte_count> live, const absence& a) const {
    for (std::size_t i = a.before + 1; i < a.next; ++i) live[i] -= size_[a.what];
    byte_count longer = 0;  // of inputs that had been dead before `next`
    for (const tensor_id in : a.again.in) {
      const auto last = static_cast<std::size_t>(stretch_[in].last);
      if (last >= a.next) continue;
      longer += size_[in];
      for (std::size_t i = last + 1; i < a.next; ++i) live[i] += size_[in];
      if (gives_its_place(graph_.ops[last], in)) live[last] += size_[in];
    }
    live.push_back(held_into(live, a.next) + longer);
    return live;
  }

  bool gives_its_place(const op& o, tensor_id in) const {
    return o.alias && o.in[o.alias->input] == in && size_[o.out[o.alias->output]] == size_[in];
  }

  // What is alive when operator `i` begins.
  byte_count held_into(const std::vector<byte_count>& live, std::size_t i) const {
    const op& o = graph_.ops[i];
    byte_count held = live[i];
    for (const tensor_id out : o.out) {
      if (stretch_[out].first == static_cast<std::int64_t>(i)) held -= size_[out];
    }
    if (!o.alias) return held;
    const tensor_id from = o.in[o.alias->input];
    const bool ends =
        stretch_[from].last == static_cast<std::int64_t>(i) && !survives(graph_.tensors[from].use);
    return ends && gives_its_place(o, from) ? held + size_[from] : held;
  }

  void apply(const absence& a) {
    tensor t = graph_.tensors[a.what];
    const std::string stem = t.name.substr(0, t.name.find(".again"));
    const int times = ++times_[stem];
    const std::string suffix = ".again" + (times > 1 ? std::to_string(times) : std::string());
    t.name = stem + suffix;
    const auto again = static_cast<tensor_id>(graph_.tensors.size());
    graph_.tensors.push_back(std::move(t));
    size_.push_back(size_[a.what]);
    for (std::size_t i = a.next; i < graph_.ops.size(); ++i) {
      std::ranges::replace(graph_.ops[i].in, a.what, again);
    }
    op o = a.again;
    o.name = o.name.substr(0, o.name.find(".again")) + suffix;
    o.out = {again};
    graph_.ops.insert(graph_.ops.begin() + static_cast<std::ptrdiff_t>(a.next), std::move(o));
    repetitions_.push_back({a.what, again, a.traffic});
  }

  // Later repetitions can make earlier ones needless.
  void undo_needless(std::vector<repetition> taken, byte_count least) {
    std::ranges::stable_sort(taken, std::ranges::greater{}, &repetition::traffic);
    for (std::size_t k = 0; k < taken.size(); ++k) {
      const repetition r = taken[k];
      std::vector<op> kept = graph_.ops;
      std::erase_if(graph_.ops, [&](const op& o) { return o.out[0] == r.again; });
      for (op& o : graph_.ops) std::ranges::replace(o.in, r.again, r.first);
      if (most_of(live_bytes(graph_, size_)) > least) {
        graph_.ops = std::move(kept);
        continue;
      }
      for (repetition& other : taken) {
        if (other.first == r.again) other.first = r.first;
      }
    }
    graph_ = compacted(graph_);
  }

  graph graph_;
  std::vector<byte_count> size_;
  std::vector<stretch> stretch_;
  std::map<std::string, int> times_;  // each tensor was computed again
  std::vector<repetition> repetitions_;
};

}  // namespace

byte_count peak_live_bytes(const graph& g) {
  return most_of(live_bytes(g, sizes_of(g)));
}

graph recompute_cheap(const graph& g, double most_traffic) {
  return shortening(g).run(most_traffic);
}

}  // namespace um
