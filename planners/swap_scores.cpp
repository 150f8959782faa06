#include "planners/swap_scores.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace um {
namespace {

void standardize(std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  for (double& v : values) v = deviation > 0 ? (v - mean) / deviation : 0;
}

void remove_absence(std::vector<byte_count>& live_bytes, const possible_absence& a) {
  for (std::size_t step = a.from; step < a.to; ++step)
    live_bytes[step] -= std::min(live_bytes[step], a.bytes);
}

}  // namespace

std::vector<swap_weights> swap_weight_vectors() {
  std::vector<swap_weights> all{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  constexpr std::array<std::uint32_t, swap_scores> bases{2, 3, 5, 7};
  for (std::uint32_t i = 1; i <= 40; ++i) {
    swap_weights& w = all.emplace_back();
    for (std::size_t s = 0; s < swap_scores; ++s) {
      double digit = 1, at = 0;
      for (std::uint32_t rest = i; rest > 0; rest /= bases[s]) at += (digit /= bases[s]) * (rest % bases[s]);
      w[s] = 2 * at - 1;
    }
  }
  return all;
}

swap_chooser::swap_chooser(std::vector<byte_count> live_bytes, std::vector<double> starts,
                           std::vector<possible_absence> candidates)
    : live_bytes_(std::move(live_bytes)),
      start_times_(std::move(starts)),
      candidates_(std::move(candidates)) {
  for (std::size_t s = 0; s < swap_scores && !candidates_.empty(); ++s) {
    scores_[s] = unscaled_scores(static_cast<swap_score>(s));
    standardize(scores_[s]);
  }
}

std::vector<double> swap_chooser::area_prefix_sums(const std::vector<byte_count>& live_bytes) const {
  std::vector<double> sums{0};
  for (std::size_t i = 0; i < live_bytes.size(); ++i)
    sums.push_back(sums.back() +
                   static_cast<double>(live_bytes[i]) * (start_times_[i + 1] - start_times_[i]));
  return sums;
}

// One score per candidate.
std::vector<double> swap_chooser::unscaled_scores(swap_score s) const {
  if (s == swap_score::swdoa) return areas_after_removals();
  const std::vector<double> areas = area_prefix_sums(live_bytes_);
  std::vector<double> values;
  for (const possible_absence& a : candidates_) {
    const double duration = start_times_[a.to] - start_times_[a.from] - a.copy_time;
    const auto bytes = static_cast<double>(a.bytes);
    values.push_back(s == swap_score::wdoa  ? area_of_absence(a, areas)
                     : s == swap_score::doa ? duration
                     : duration >= 0        ? duration * bytes
                                            : duration / bytes);
  }
  return values;
}

// Per candidate: area under the curve of live bytes during its absence, after the candidates with larger
// areas were removed.
std::vector<double> swap_chooser::areas_after_removals() const {
  std::vector<double> values(candidates_.size(), -1);
  std::vector<byte_count> live_bytes = live_bytes_;
  for (std::size_t taken = 0; taken < values.size(); ++taken) {
    const std::vector<double> areas = area_prefix_sums(live_bytes);
    std::optional<std::size_t> most;
    for (std::size_t c = 0; c < values.size(); ++c) {
      if (values[c] >= 0) continue;
      if (!most || area_of_absence(candidates_[c], areas) > area_of_absence(candidates_[*most], areas))
        most = c;
    }
    values[*most] = std::max(0.0, area_of_absence(candidates_[*most], areas));
    remove_absence(live_bytes, candidates_[*most]);
  }
  return values;
}

std::vector<std::size_t> swap_chooser::choose(const swap_weights& w, byte_count limit) const {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    double sum = 0;
    for (std::size_t s = 0; s < swap_scores; ++s) sum += w[s] * scores_[s][c];
    order.emplace_back(-sum, c);
  }
  std::ranges::sort(order);
  std::vector<std::size_t> chosen;
  // The first step above the limit, the bytes absent at it, and the changes of these at later steps. Absences
  // only lower the curve, so that steps before it stay below.
  std::size_t step = 0;
  std::int64_t absent = 0;
  std::vector<std::int64_t> change(live_bytes_.size() + 1);
  const auto is_above = [&] {
    return static_cast<std::int64_t>(live_bytes_[step]) - absent > static_cast<std::int64_t>(limit);
  };
  for (const auto& [score, c] : order) {
    while (step < live_bytes_.size() && !is_above()) absent += change[++step];
    if (step == live_bytes_.size()) break;
    chosen.push_back(c);
    const possible_absence& a = candidates_[c];
    const auto bytes = static_cast<std::int64_t>(a.bytes);
    if (a.to <= step) continue;
    (a.from <= step ? absent : change[a.from]) += bytes;
    change[a.to] -= bytes;
  }
  return chosen;
}

}  // namespace um
