#include "planners/best_choices.hpp"

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

bool computes_again(way how) {
  return how == way::again || how == way::again_held;
}

}  // namespace

choices::choices(const problem& p, std::vector<compute> order, bool moves)
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

void choices::find_classes() {
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

bool choices::allows(std::size_t c, way how) const {
  if (computes_again(how)) return classes_[c].again;
  return how == way::keep || moves_;
}

std::vector<decision> choices::decisions_for(const std::vector<way>& ways) const {
  std::vector<decision> all(gaps_.size());
  std::vector<bool> in_time(gaps_.size(), false);
  bool swaps = false;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (ways[c] == way::keep) continue;
    for (const std::uint32_t x : classes_[c].gaps) {
      if (computes_again(ways[c])) {
        all[x] = {choice::again, gaps_[x].last, ways[c] == way::again ? gaps_[x].next : gaps_[x].last};
      } else {
        all[x].what = choice::swap;
        in_time[x] = ways[c] == way::swap_in_time;
        swaps = true;
      }
    }
  }
  if (swaps) place_transfers(forecast_, uses_, gaps_, in_time, all, allowance_of(p_));
  return all;
}

evaluation choices::memory_of(const std::vector<way>& ways, byte_count budget) {
  const std::vector<decision> decisions = decisions_for(ways);
  const std::vector<bool> staged = staged_tensors(uses_, gaps_, decisions);
  events_ = builder_.build(decisions, staged);
  evaluation e;
  e.said = forecast_.memory_of(events_, staged);
  at_ = e.said.at;
  e.excess = e.said.peak - std::min(e.said.peak, budget);
  for (const byte_count live : forecast_.live()) {
    if (live > budget) e.over += static_cast<double>(live - budget);
  }
  return e;
}

void choices::add_time(evaluation& e) {
  forecast_.add_time(events_, e.said);
  e.said.time += toll_of(e.said);
}

nanoseconds choices::toll_of(const prediction& said) const {
  nanoseconds copying = 0;
  if (said.to_device > 0) copying += forecast_.time_of_copy(said.to_device, lane::to_device);
  if (said.to_host > 0) copying += forecast_.time_of_copy(said.to_host, lane::to_host);
  return copying / 100 * p_.knobs.at("copies") + said.copies * p_.knobs.at("copy_us") * 1000;
}

position choices::peak() const {
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

bool choices::covers(std::size_t c, position at) const {
  return std::ranges::any_of(classes_[c].gaps,
                             [&](std::uint32_t x) { return gaps_[x].last < at && at < gaps_[x].next; });
}

memory_plan choices::plan(const std::vector<way>& ways) const {
  return plan_of(p_.network, uses_, gaps_, decisions_for(ways));
}

}  // namespace um
