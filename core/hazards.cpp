#include "core/hazards.hpp"

#include <algorithm>

namespace um {
namespace {

void merge(last_steps& into, const last_steps& from) {
  for (std::size_t i = 0; i < lane_count; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

last_steps address_users::of(const range& r) const {
  last_steps all = no_steps;
  auto at = from_.upper_bound(r.offset);
  if (at != from_.begin()) --at;
  for (; at != from_.end() && at->first < r.offset + r.bytes; ++at) {
    const auto next = std::next(at);
    if (next == from_.end() || next->first > r.offset) merge(all, at->second);
  }
  return all;
}

std::map<byte_count, last_steps>::iterator address_users::split(byte_count at) {
  const auto next = from_.lower_bound(at);
  if (next != from_.end() && next->first == at) return next;
  const last_steps before = next == from_.begin() ? no_steps : std::prev(next)->second;
  return from_.emplace_hint(next, at, before);
}

void address_users::add(const range& r, lane where, std::int32_t step) {
  if (r.bytes == 0) return;
  const auto first = split(r.offset), last = split(r.offset + r.bytes);
  for (auto at = first; at != last; ++at) at->second[static_cast<std::size_t>(where)] = step;
}

hazards::hazards(const std::vector<strip_layout>& strips) {
  for (const strip_layout& l : strips) {
    here_.emplace_back(l.strips.size(), std::vector<uses>(l.cells.count()));
    home_.emplace_back(l.cells.count());
  }
}

void hazards::begin(std::int32_t step, lane where) {
  now_ = step;
  lane_ = where;
  wait_ = joined_;
  latest_[static_cast<std::size_t>(where)] = step;
}

void hazards::read(uses& u) {
  merge(wait_, u.write);
  u.read[static_cast<std::size_t>(lane_)] = now_;
}
void hazards::write(uses& u) {
  merge(wait_, u.read);
  merge(wait_, u.write);
  u.write[static_cast<std::size_t>(lane_)] = now_;
}

void hazards::read(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells) {
  for (const std::uint32_t c : cells) read(here_[t][strip][c]);
}
void hazards::write(tensor_id t, std::uint32_t strip, const std::vector<std::uint32_t>& cells) {
  for (const std::uint32_t c : cells) write(here_[t][strip][c]);
}
void hazards::read_home(tensor_id t, const std::vector<std::uint32_t>& cells) {
  for (const std::uint32_t c : cells) read(home_[t][c]);
}
void hazards::write_home(tensor_id t, const std::vector<std::uint32_t>& cells) {
  for (const std::uint32_t c : cells) write(home_[t][c]);
}

void hazards::use(address_users& arena, const range& r, const last_steps& before) {
  merge(wait_, before);
  arena.add(r, lane_, now_);
}

void hazards::wait_for(const last_steps& others) {
  merge(wait_, others);
}
void hazards::wait_for(lane where, std::int32_t step) {
  std::int32_t& last = wait_[static_cast<std::size_t>(where)];
  last = std::max(last, step);
}

last_steps hazards::waits() const {
  last_steps all = wait_;
  all[static_cast<std::size_t>(lane_)] = no_step;
  return all;
}

}  // namespace um
