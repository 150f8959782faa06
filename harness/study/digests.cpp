#include "harness/study/digests.hpp"

#include <fmt/format.h>

namespace um {
namespace {

// The same for cells with the same computation on the same machine, whatever their strategy.
std::string comparison_key(const record& r) {
  std::string knobs;
  for (const auto& [name, value] : r.network.knobs) knobs += fmt::format(",{}={}", name, value);
  return fmt::format("{}{}/b{}/{}{}/{}/{}/{}/{}/{}", r.network.name, knobs, r.network.batch,
                     to_text(r.network.mode), optimizer_text(r.network), to_text(r.network.fusion_mode),
                     storage_text(r.network), r.workspace_cap.value_or(0), r.backend, r.device.value_or("?"));
}

}  // namespace

void digest_checker::check(record& r) {
  if (r.result != outcome::ok || !r.digest) return;
  if (r.strategy != baseline_strategy && !r.same_bits) return;
  // With SGD the result depends on how many iterations ran.
  const std::string group = fmt::format("{}/i{}", comparison_key(r), r.iterations);
  if (r.strategy == baseline_strategy) by_group_.emplace(group, *r.digest);
  const auto expected = by_group_.find(group);
  if (expected == by_group_.end() || expected->second == *r.digest) return;
  r.result = outcome::wrong_result;
  r.reason = fmt::format("loss and gradients have digest {:016x}, those of device {:016x}", *r.digest,
                         expected->second);
}

}  // namespace um
