#include "planners/best_space.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedule/transfers.hpp"

namespace um {
namespace {

// A copy may be late by several times of what copies cost on the average.
allowance allowance_of(const problem& p) {
  constexpr std::int64_t times = 3;
  return {times * p.knobs.at("copies"), times * p.knobs.at("copy_us") * 1000};
}

bool computes_again(treatment how) {
  return how == treatment::again || how == treatment::again_kept;
}

}  // namespace

nanoseconds copy_price(const problem& p, byte_count to_device, byte_count to_host, std::int64_t copies) {
  const auto time_of = [&](byte_count bytes, std::uint64_t rate) {
    return bytes == 0 || rate == 0 ? 0 : p.on.copy_ns + time_at(bytes, rate);
  };
  const nanoseconds copying =
      time_of(to_device, p.on.link_to_device_bytes_per_s) + time_of(to_host, p.on.link_to_host_bytes_per_s);
  return copying / 100 * p.knobs.at("copies") + copies * p.knobs.at("copy_us") * 1000;
}

search_space::search_space(const problem& p, std::vector<compute> order, bool moves)
    : p_(p),
      uses_(uses_of(p.network, std::move(order))),
      gaps_(gaps_of(p.network, uses_)),
      builder_(p.network, uses_, gaps_),
      forecast_(p, uses_),
      moves_(moves && p.on.link_to_device_bytes_per_s > 0 && p.on.link_to_host_bytes_per_s > 0) {
  forecast_.expect_the_worst();
  find_classes();
  for (position at = 0; at < uses_.end(); ++at) computing_ += forecast_.time_of(at);
}

void search_space::find_classes() {
  std::map<std::tuple<tensor_id, std::int64_t, std::int64_t>, std::size_t> index;
  const auto op_at = [&](position at) {
    return at < 0 || at >= uses_.end() ? -1 : std::int64_t{uses_.order[static_cast<std::size_t>(at)].what};
  };
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    const gap& e = gaps_[x];
    const auto [at, fresh] =
        index.try_emplace({uses_.parts[e.part].what, op_at(e.last), op_at(e.next)}, classes_.size());
    if (fresh) classes_.push_back({{}, 0, true});
    gap_class& c = classes_[at->second];
    const byte_count bytes = uses_.parts[e.part].bytes;
    c.gaps.push_back(x);
    c.bytes = std::max(c.bytes, bytes);
    c.again = c.again && e.again;
    if (e.again) c.time_again += forecast_.time_again(e.producer);
    if (e.next < uses_.end()) c.time_moving += forecast_.time_of_copy(bytes, lane::to_device);
    if (!e.at_home) c.time_moving += forecast_.time_of_copy(bytes, lane::to_host);
  }
}

bool search_space::allows(std::size_t c, treatment how) const {
  if (computes_again(how)) return classes_[c].again;
  return how == treatment::keep || moves_;
}

std::vector<decision> search_space::decisions_for(const std::vector<treatment>& treatments) const {
  std::vector<decision> all(gaps_.size());
  std::vector<bool> in_time(gaps_.size(), false);
  bool swaps = false;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (treatments[c] == treatment::keep) continue;
    for (const std::uint32_t x : classes_[c].gaps) {
      if (computes_again(treatments[c])) {
        all[x] = {choice::again, gaps_[x].last,
                  treatments[c] == treatment::again ? gaps_[x].next : gaps_[x].last};
      } else {
        all[x].what = choice::swap;
        in_time[x] = treatments[c] == treatment::swap_in_time;
        swaps = true;
      }
    }
  }
  if (swaps) place_transfers(forecast_, uses_, gaps_, in_time, all, allowance_of(p_));
  return all;
}

evaluation search_space::memory_of(const std::vector<treatment>& treatments, byte_count budget) {
  const std::vector<decision> decisions = decisions_for(treatments);
  const std::vector<bool> staged = staged_tensors(uses_, gaps_, decisions);
  events_ = builder_.build(decisions, staged);
  work_ += events_.size();
  evaluation e;
  e.forecast = forecast_.memory_of(events_, staged);
  at_ = e.forecast.at;
  e.excess = e.forecast.peak - std::min(e.forecast.peak, budget);
  for (const byte_count live : forecast_.live()) {
    if (live > budget) e.over += static_cast<double>(live - budget);
  }
  return e;
}

void search_space::add_time(evaluation& e) {
  forecast_.add_time(events_, e.forecast);
  work_ += events_.size();
  e.forecast.time += copy_price(p_, e.forecast.to_device, e.forecast.to_host, e.forecast.copies);
}

position search_space::peak() const {
  std::vector<bool> done(uses_.order.size(), false);
  position at = 0;
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    if (events_[i].what != verb::compute) continue;
    const bool first = !done[events_[i].which];
    done[events_[i].which] = true;
    if (first) at = static_cast<position>(events_[i].which);
    if (i >= at_ && first) break;
  }
  return at;
}

bool search_space::covers(std::size_t c, position at) const {
  return std::ranges::any_of(classes_[c].gaps,
                             [&](std::uint32_t x) { return gaps_[x].last < at && at < gaps_[x].next; });
}

memory_plan search_space::plan(const std::vector<treatment>& treatments) const {
  return plan_of(p_.network, uses_, gaps_, decisions_for(treatments));
}

}  // namespace um
