#include "core/hazards.hpp"

#include <algorithm>
#include <utility>

namespace um {
namespace {

void merge_later_steps(last_steps& into, const last_steps& from) {
  for (std::size_t i = 0; i < lane_count; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

last_steps address_users::users_of(const range& r) const {
  last_steps all = no_steps;
  auto at = users_from_.upper_bound(r.offset);
  if (at != users_from_.begin()) --at;
  for (; at != users_from_.end() && at->first < r.offset + r.bytes; ++at) {
    const auto next = std::next(at);
    if (next == users_from_.end() || next->first > r.offset) merge_later_steps(all, at->second);
  }
  return all;
}

std::map<byte_count, last_steps>::iterator address_users::split_at(byte_count at) {
  const auto next = users_from_.lower_bound(at);
  if (next != users_from_.end() && next->first == at) return next;
  const last_steps before = next == users_from_.begin() ? no_steps : std::prev(next)->second;
  return users_from_.emplace_hint(next, at, before);
}

void address_users::record(const range& r, lane where, std::int32_t step) {
  if (r.bytes == 0) return;
  const auto begin = split_at(r.offset), end = split_at(r.offset + r.bytes);
  for (auto at = begin; at != end; ++at) at->second[static_cast<std::size_t>(where)] = step;
}

hazards::hazards(const std::vector<strip_layout>& strips) {
  for (const strip_layout& l : strips) {
    std::vector<strip_uses>& of_tensor = device_uses_.emplace_back();
    for (const region& strip : l.strips) {
      std::vector<std::uint32_t> cells = l.cells_of(strip);
      std::ranges::sort(cells);
      std::vector<last_uses> none(cells.size());
      of_tensor.push_back({std::move(cells), std::move(none)});
    }
    host_copy_uses_.emplace_back(l.grid.cell_count());
  }
}

hazards::last_uses* hazards::strip_uses::find(std::uint32_t cell) {
  const auto at = std::ranges::lower_bound(cells, cell);
  return at == cells.end() || *at != cell ? nullptr : &uses[static_cast<std::size_t>(at - cells.begin())];
}

void hazards::begin_step(std::int32_t step, lane where) {
  step_ = step;
  lane_ = where;
  awaited_ = last_joined_;
  latest_[static_cast<std::size_t>(where)] = step;
}

void hazards::read(last_uses& u) {
  merge_later_steps(awaited_, u.write);
  u.read[static_cast<std::size_t>(lane_)] = step_;
}
void hazards::write(last_uses& u) {
  merge_later_steps(awaited_, u.read);
  merge_later_steps(awaited_, u.write);
  u.write[static_cast<std::size_t>(lane_)] = step_;
}

void hazards::use(address_users& arena, const range& r, const last_steps& earlier_users) {
  merge_later_steps(awaited_, earlier_users);
  arena.record(r, lane_, step_);
}

void hazards::wait_for(const last_steps& others) {
  merge_later_steps(awaited_, others);
}
void hazards::wait_for(lane where, std::int32_t step) {
  std::int32_t& last = awaited_[static_cast<std::size_t>(where)];
  last = std::max(last, step);
}

last_steps hazards::awaited_steps() const {
  last_steps all = awaited_;
  all[static_cast<std::size_t>(lane_)] = no_step;
  return all;
}

address_hazards::address_hazards(const lifetime_table& table, const layout& at, hazards& waits)
    : table_(table), layout_(at), hazards_(waits), previous_users_(table.lifetimes.size()) {}

void address_hazards::use_addresses(std::uint32_t l) {
  const lifetime& held = table_.lifetimes[l];
  address_users& arena = held.is_managed ? managed_ : device_;
  const range bytes{layout_.offsets[l], held.bytes};
  if (!previous_users_[l]) previous_users_[l] = arena.users_of(bytes);
  hazards_.use(arena, bytes, *previous_users_[l]);
}

void address_hazards::release_addresses(tensor_id t, const std::vector<range>& what, lane where,
                                        std::int32_t step) {
  for (const std::uint32_t l : table_.by_tensor[t]) {
    if (previous_users_[l])
      use_addresses(l);  // first use in this lifetime: earlier users of these addresses may still run
    managed_.record({layout_.offsets[l], table_.lifetimes[l].bytes}, where, step);
  }
  for (const range& r : what) releases_.record(r, where, step);
}

void address_hazards::wait_for_release(const range& r) {
  hazards_.wait_for(releases_.users_of(r));
}

}  // namespace um
