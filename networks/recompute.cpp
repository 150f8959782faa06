#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/liveness.hpp"
#include "core/memory_plan.hpp"
#include "networks/passes.hpp"

namespace um {
namespace {

constexpr std::int64_t most_products =
    32;  // maximum multiplications per output element of a cheap convolution

byte_count largest(const std::vector<byte_count>& live) {
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

// --- which tensors are cheap to recompute ---

// The operator that recomputes the output `what` of `o`; nothing if that is not cheap.
std::optional<op> cheap_recomputation_op(const graph& g, const op& o, tensor_id what) {
  if (o.out[0] != what || g.tensors[what].role != role::activation) return std::nullopt;
  if (std::optional<op> second = cheap_recomputation_of(o)) return second;
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
                 o.attributes.value);
  return cheap ? std::optional(std::move(copy)) : std::nullopt;
}

// A tensor that is dropped after operator `before` and recomputed just before operator `next`.
struct recomputation {
  tensor_id what = 0;
  op again;
  std::size_t before = 0, next = 0;
  byte_count traffic = 0;  // bytes that the recomputation reads and writes
};

struct applied_recomputation {
  tensor_id first = 0, again = 0;
  byte_count traffic = 0;
};

// Recomputes tensors that are alive at the peak, one by one, cheapest first, while that lowers the peak.
class peak_reducer {
 public:
  explicit peak_reducer(const graph& g) : graph_(g), size_(sizes_in_arena(g)) {}

  graph run(double max_traffic_per_byte) {
    graph best = graph_;
    std::vector<applied_recomputation> taken;
    const byte_count first = largest(live_bytes(graph_, size_));
    byte_count least = first;
    while (recompute_one_more()) {
      const byte_count now = largest(live_bytes(graph_, size_));
      if (now >= least || total_traffic() > max_traffic_per_byte * static_cast<double>(first - now)) continue;
      least = now;
      best = graph_;
      taken = applied_;
    }
    graph_ = std::move(best);
    remove_unnecessary(std::move(taken), least);
    return std::move(graph_);
  }

 private:
  struct peak {
    byte_count most = 0;
    std::int64_t times = 0;
    auto operator<=>(const peak&) const = default;
  };

  static peak peak_of(const std::vector<byte_count>& live) {
    const byte_count most = largest(live);
    return {most, std::ranges::count(live, most)};
  }

  double total_traffic() const {
    double sum = 0;
    for (const applied_recomputation& r : applied_) sum += static_cast<double>(r.traffic);
    return sum;
  }

  // Recomputes one more tensor. Returns false if none lowers the peak or the number of operators that reach
  // it.
  bool recompute_one_more() {
    live_range_ = live_ranges(graph_);
    const std::vector<byte_count> live = live_bytes(graph_, size_);
    const peak now = peak_of(live);
    const auto at = static_cast<std::size_t>(std::ranges::find(live, now.most) - live.begin());
    for (const recomputation& a : candidates_across(at)) {
      if (peak_of(live_bytes_with(live, a)) >= now) continue;
      apply(a);
      return true;
    }
    return false;
  }

  // Tensors that could be dropped while operator `at` runs, cheapest first.
  std::vector<recomputation> candidates_across(std::size_t at) const {
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
    std::vector<recomputation> all;
    for (tensor_id id = 0; id < before.size(); ++id) {
      if (before[id] == nowhere || next[id] == nowhere || before[id] == at) continue;
      if (writer[id] == nullptr) continue;
      auto copy = cheap_recomputation_op(graph_, *writer[id], id);
      if (!copy) continue;
      byte_count traffic = size_[id];
      for (const tensor_id in : copy->in) traffic += size_[in];
      all.push_back({id, std::move(*copy), before[id], next[id], traffic});
    }
    // Traffic per byte by which the peak falls. Inputs of the recomputation that must stay alive longer count
    // against it.
    const auto price = [&](const recomputation& a) {
      byte_count kept_alive = 0;
      for (const tensor_id in : a.again.in) {
        if (std::size_t{live_range_[in]->last} < at) kept_alive += size_[in];
      }
      const byte_count less = size_[a.what] - std::min(kept_alive, size_[a.what]);
      return static_cast<double>(a.traffic) / static_cast<double>(std::max<byte_count>(less, 1));
    };
    std::ranges::stable_sort(all, [&](const recomputation& a, const recomputation& z) {
      return std::pair(price(a), size_[z.what]) < std::pair(price(z), size_[a.what]);
    });
    return all;
  }

  // Live bytes of each operator after recomputation `a`; the last entry belongs to the new operator.
  std::vector<byte_count> live_bytes_with(std::vector<byte_count> live, const recomputation& a) const {
    for (std::size_t i = a.before + 1; i < a.next; ++i) live[i] -= size_[a.what];
    byte_count longer = 0;  // bytes of inputs that now live until `next`
    for (const tensor_id in : a.again.in) {
      const auto last = std::size_t{live_range_[in]->last};
      if (last >= a.next) continue;
      longer += size_[in];
      for (std::size_t i = last + 1; i < a.next; ++i) live[i] += size_[in];
      if (is_reused_in_place(graph_.ops[last], in)) live[last] += size_[in];
    }
    live.push_back(live_before(live, a.next) + longer);
    return live;
  }

  bool is_reused_in_place(const op& o, tensor_id in) const {
    return o.alias && o.in[o.alias->input] == in && size_[o.out[o.alias->output]] == size_[in];
  }

  // Bytes alive when operator `i` begins.
  byte_count live_before(const std::vector<byte_count>& live, std::size_t i) const {
    const op& o = graph_.ops[i];
    byte_count held = live[i];
    for (const tensor_id out : o.out) {
      if (live_range_[out]->first == i) held -= size_[out];
    }
    if (!o.alias) return held;
    const tensor_id from = o.in[o.alias->input];
    const bool ends = live_range_[from]->last == i && !survives(graph_.tensors[from].role);
    return ends && is_reused_in_place(o, from) ? held + size_[from] : held;
  }

  void apply(const recomputation& a) {
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
    applied_.push_back({a.what, again, a.traffic});
  }

  // Removes recomputations without which the peak stays at most `peak_bytes`.
  void remove_unnecessary(std::vector<applied_recomputation> taken, byte_count peak_bytes) {
    std::ranges::stable_sort(taken, std::ranges::greater{}, &applied_recomputation::traffic);
    for (std::size_t k = 0; k < taken.size(); ++k) {
      const applied_recomputation r = taken[k];
      std::vector<op> kept = graph_.ops;
      std::erase_if(graph_.ops, [&](const op& o) { return o.out[0] == r.again; });
      for (op& o : graph_.ops) std::ranges::replace(o.in, r.again, r.first);
      if (largest(live_bytes(graph_, size_)) > peak_bytes) {
        graph_.ops = std::move(kept);
        continue;
      }
      for (applied_recomputation& other : taken) {
        if (other.first == r.again) other.first = r.first;
      }
    }
    graph_ = without_unused_tensors(graph_);
  }

  graph graph_;
  std::vector<byte_count> size_;
  std::vector<std::optional<index_range>> live_range_;
  std::map<std::string, int> times_;  // per original tensor: number of recomputations so far
  std::vector<applied_recomputation> applied_;
};

}  // namespace

graph recompute_cheap(const graph& g, double max_traffic_per_byte) {
  return peak_reducer(g).run(max_traffic_per_byte);
}

}  // namespace um
