#include "harness/study/digests.hpp"

#include <fmt/format.h>

namespace um {

void digest_checker::check(record& r) {
  if (r.result != outcome::ok || !r.digest) return;
  if (r.strategy != baseline_strategy && !r.same_bits) return;
  // With SGD the result depends on how many iterations ran.
  const std::string group = fmt::format("{}/i{}", group_of(r), r.iterations);
  if (r.strategy == baseline_strategy) by_group_.emplace(group, *r.digest);
  const auto expected = by_group_.find(group);
  if (expected == by_group_.end() || expected->second == *r.digest) return;
  r.result = outcome::wrong_result;
  r.reason = fmt::format("loss and gradients have digest {:016x}, those of device {:016x}", *r.digest,
                         expected->second);
}

}  // namespace um
