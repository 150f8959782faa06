#include "planners/torch_target.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/hash.hpp"

namespace um {

std::int64_t least_torch_peak(const torch_step& step) {
  const torch_wiring wiring(step);
  const auto bytes_of = [&](const std::vector<torch_id>& roots) {
    std::int64_t bytes = 0;
    for (const torch_id v : roots) bytes += wiring.at(v).resident ? 0 : wiring.at(v).bytes;
    return bytes;
  };
  std::vector<torch_id> returned;
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    if (wiring.backward_result[v]) returned.push_back(v);
  }
  std::int64_t most = bytes_of(returned);
  for (const torch_id v : wiring.computed) {
    if (wiring.at(v).kind != torch_kind::kernel) continue;
    most = std::max(most, bytes_of(wiring.sources[v]) + wiring.at(v).bytes + bytes_of(wiring.items[v]) +
                              wiring.at(v).workspace);
  }
  return step.base_bytes + most;
}

// The work of looking a choice up, and of finding its graphs: the nodes divided by these, and `beside` on
// top.
constexpr std::int64_t of_lookup = 20, of_graphs = 4, beside = 10;

struct torch_model::parts {
  parts(const torch_step& step, std::int64_t budget)
      : wiring(step), orders(wiring), walk(orders, budget), aim(budget) {}

  // Whether the estimate of a choice, under the same aim, is known.
  const torch_estimate* find(const std::vector<torch_fate>& choice) {
    auto& estimates = known[{aim, times}];
    const auto found = estimates.find(hash_of(choice));
    return found == estimates.end() ? nullptr : &found->second;
  }
  void note(const std::vector<torch_fate>& choice) { known[{aim, times}][hash_of(choice)] = estimate; }
  static std::uint64_t hash_of(const std::vector<torch_fate>& choice) {
    return fnv1a({reinterpret_cast<const char*>(choice.data()), choice.size()});
  }
  // The choice with what the backward graph does not read computed again, which changes nothing.
  std::vector<torch_fate> of_used() const {
    std::vector<torch_fate> used(wiring.root.size());
    for (const torch_id v : orders.used)
      used[v] = orders.is_offloaded[v] ? torch_fate::offloaded : torch_fate::saved;
    return used;
  }
  void run() {
    estimate = walk.run_both_passes();
    has_run = true;
  }
  void count_work(std::int64_t part) {
    work += static_cast<std::int64_t>(wiring.root.size()) / part + beside;
  }

  torch_wiring wiring;
  torch_orders orders;
  torch_walk walk;
  torch_estimate estimate;
  std::vector<torch_fate> fates;  // of the last evaluation
  bool has_run = false;           // its graphs
  std::int64_t aim, work = 0;
  double times = 1;
  std::map<std::pair<std::int64_t, double>, std::unordered_map<std::uint64_t, torch_estimate>> known;
};

torch_model::torch_model(const torch_step& step, std::int64_t budget)
    : parts_(std::make_unique<parts>(step, budget)) {}
torch_model::~torch_model() = default;

torch_estimate torch_model::evaluate(const std::vector<torch_fate>& fates) {
  parts& p = *parts_;
  p.fates = fates;
  p.has_run = false;
  if (const torch_estimate* known = p.find(fates)) {
    p.count_work(of_lookup);
    return p.estimate = *known;
  }
  p.orders.choose(fates);
  const std::vector<torch_fate> used = p.of_used();
  if (const torch_estimate* known = p.find(used)) {
    p.count_work(of_graphs);
    p.estimate = *known;
  } else {
    p.count_work(1);
    p.run();
    p.note(used);
  }
  p.note(fates);
  return p.estimate;
}

const std::vector<torch_id>& torch_model::used_of(const std::vector<torch_fate>& fates) {
  parts& p = *parts_;
  p.fates = fates;
  p.has_run = false;
  p.count_work(of_graphs);
  p.orders.choose(fates);
  return p.orders.used;
}

void torch_model::aim_at(std::int64_t budget) {
  parts_->aim = budget;
  parts_->walk.aim_at(budget);
}

void torch_model::leave_time(double times) {
  parts_->times = times;
  parts_->walk.leave_time(times);
}

std::int64_t torch_model::work() const {
  return parts_->work;
}

torch_plan torch_model::plan() {
  parts& p = *parts_;
  if (!p.has_run) {
    p.orders.choose(p.fates);
    p.run();
  }
  torch_plan made;
  made.saved = p.orders.used;
  std::vector<char> again(p.wiring.root.size());
  for (const torch_id v : p.orders.forward) again[v] = 1;
  for (const torch_id v : p.orders.backward) {
    if (again[v]) made.recomputed.push_back(v);
  }
  std::ranges::sort(made.saved);
  made.offloaded = p.walk.copies();
  made.stored = p.walk.gradients_to_store();
  std::ranges::sort(made.recomputed);
  made.estimate = p.estimate;
  return made;
}

}  // namespace um
