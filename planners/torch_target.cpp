#include "planners/torch_target.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/hash.hpp"

namespace um {

std::int64_t torch_peak_lower_bound(const torch_step& step) {
  const torch_dataflow dataflow(step);
  const auto bytes_of = [&](const std::vector<torch_id>& owners) {
    std::int64_t bytes = 0;
    for (const torch_id v : owners) bytes += dataflow.at(v).is_resident ? 0 : dataflow.at(v).bytes;
    return bytes;
  };
  std::vector<torch_id> returned;
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    if (dataflow.is_backward_result[v]) returned.push_back(v);
  }
  std::int64_t most = bytes_of(returned);
  for (const torch_id v : dataflow.computed) {
    if (dataflow.at(v).kind != torch_kind::kernel) continue;
    most = std::max(most, bytes_of(dataflow.sources[v]) + dataflow.at(v).bytes + bytes_of(dataflow.items[v]) +
                              dataflow.at(v).workspace);
  }
  return step.base_bytes + most;
}

// Work of looking up a choice: nodes / lookup_divisor; of determining its graphs: nodes / graphs_divisor;
// each plus lookup_overhead.
constexpr std::int64_t lookup_divisor = 20, graphs_divisor = 4, lookup_overhead = 10;

struct torch_model::state {
  state(const torch_step& step, std::int64_t limit)
      : dataflow(step), orders(dataflow), walk(orders, limit), budget(limit) {}

  // The stored estimate of a choice with the same budget and safety factor; nullptr: none.
  const torch_estimate* find_estimate(const std::vector<torch_fate>& choice) {
    auto& estimates = known_estimates[{budget, safety_factor}];
    const auto found = estimates.find(hash_of(choice));
    return found == estimates.end() ? nullptr : &found->second;
  }
  void store_estimate(const std::vector<torch_fate>& choice) {
    known_estimates[{budget, safety_factor}][hash_of(choice)] = estimate;
  }
  static std::uint64_t hash_of(const std::vector<torch_fate>& choice) {
    return fnv1a({reinterpret_cast<const char*>(choice.data()), choice.size()});
  }
  // The equivalent choice that saves only tensors which the backward graph reads.
  std::vector<torch_fate> without_unused() const {
    std::vector<torch_fate> used(dataflow.memory_owner.size());
    for (const torch_id v : orders.used_saved)
      used[v] = orders.is_offloaded[v] ? torch_fate::offloaded : torch_fate::saved;
    return used;
  }
  void run() {
    estimate = walk.run_both_passes();
    has_run = true;
  }
  void count_work(std::int64_t divisor) {
    work += static_cast<std::int64_t>(dataflow.memory_owner.size()) / divisor + lookup_overhead;
  }

  torch_dataflow dataflow;
  torch_orders orders;
  torch_walk walk;
  torch_estimate estimate;
  std::vector<torch_fate> fates;  // of the last evaluation
  bool has_run = false;           // whether the graphs of `fates` were walked
  std::int64_t budget, work = 0;
  double safety_factor = 1;
  std::map<std::pair<std::int64_t, double>, std::unordered_map<std::uint64_t, torch_estimate>>
      known_estimates;
};

torch_model::torch_model(const torch_step& step, std::int64_t budget)
    : state_(std::make_unique<state>(step, budget)) {}
torch_model::~torch_model() = default;

torch_estimate torch_model::evaluate(const std::vector<torch_fate>& fates) {
  state& p = *state_;
  p.fates = fates;
  p.has_run = false;
  if (const torch_estimate* known = p.find_estimate(fates)) {
    p.count_work(lookup_divisor);
    return p.estimate = *known;
  }
  p.orders.set_fates(fates);
  const std::vector<torch_fate> used = p.without_unused();
  if (const torch_estimate* known = p.find_estimate(used)) {
    p.count_work(graphs_divisor);
    p.estimate = *known;
  } else {
    p.count_work(1);
    p.run();
    p.store_estimate(used);
  }
  p.store_estimate(fates);
  return p.estimate;
}

const std::vector<torch_id>& torch_model::used_saved(const std::vector<torch_fate>& fates) {
  state& p = *state_;
  p.fates = fates;
  p.has_run = false;
  p.count_work(graphs_divisor);
  p.orders.set_fates(fates);
  return p.orders.used_saved;
}

void torch_model::set_budget(std::int64_t budget) {
  state_->budget = budget;
  state_->walk.set_budget(budget);
}

void torch_model::set_copy_safety_factor(double safety_factor) {
  state_->safety_factor = safety_factor;
  state_->walk.set_copy_safety_factor(safety_factor);
}

std::int64_t torch_model::work() const {
  return state_->work;
}

torch_plan torch_model::plan() {
  state& p = *state_;
  if (!p.has_run) {
    p.orders.set_fates(p.fates);
    p.run();
  }
  torch_plan plan;
  plan.saved = p.orders.used_saved;
  std::vector<char> recomputed(p.dataflow.memory_owner.size());
  for (const torch_id v : p.orders.forward) recomputed[v] = 1;
  for (const torch_id v : p.orders.backward) {
    if (recomputed[v]) plan.recomputed.push_back(v);
  }
  std::ranges::sort(plan.saved);
  plan.offloaded = p.walk.offloads();
  plan.stored = p.walk.gradients_to_store();
  std::ranges::sort(plan.recomputed);
  plan.estimate = p.estimate;
  return plan;
}

}  // namespace um
