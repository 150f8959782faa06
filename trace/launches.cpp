#include "trace/launches.hpp"

#include <algorithm>

#include "trace/text.hpp"

namespace um::tracing {
namespace {

constexpr nanoseconds quiet_stretch = 1'000'000'000;
constexpr nanoseconds clock_skew = 50'000;           // between the clocks of GPU and driver
constexpr nanoseconds longest_memory = 200'000'000;  // of begins that other lines are told apart by

void append(std::string& list, const std::string& entry) {
  if (!list.empty()) list += ',';
  list += entry;
}

}  // namespace

// --- without a line of their own ---

void quiet_lines::total::add(std::uint64_t more, nanoseconds time) {
  ++count;
  bytes += more;
  busy += time;
}

void quiet_lines::add(const launch& l, bool counted) {
  at({l.gpu, counted}, l.begin, l.end).kernels[l.name].add(0, l.end - l.begin);
}

void quiet_lines::add(const copy& c) {
  at({c.gpu, true}, c.begin, c.end).copies[std::string(c.way)].add(c.bytes, c.end - c.begin);
}

quiet_lines::stretch& quiet_lines::at(key of, nanoseconds begin, nanoseconds end) {
  stretch& s = open_[of];
  if (s.begin != 0 && begin > s.begin + quiet_stretch) write(of, s);
  if (s.begin == 0 || begin < s.begin) s.begin = begin;
  s.end = std::max(s.end, end);
  return s;
}

void quiet_lines::write(key of, stretch& s) {
  if (s.begin == 0) return;
  std::string kernels, copies;
  for (const auto& [name, sum] : s.kernels)
    append(kernels, '[' + std::to_string(name) + ',' + std::to_string(sum.count) + ',' +
                        std::to_string(sum.busy) + ']');
  for (const auto& [way, sum] : s.copies)
    append(copies, quoted(way) + ":[" + std::to_string(sum.count) + ',' + std::to_string(sum.bytes) + ',' +
                       std::to_string(sum.busy) + ']');
  to_.line(kind(of.second ? "quiet" : "unseen") + field("gpu", of.first) + to_.time("begin_ns", s.begin) +
           to_.time("end_ns", s.end) + ",\"kernels\":[" + kernels + "],\"copies\":{" + copies + '}');
  s = {};
}

void quiet_lines::finish() {
  for (auto& [of, s] : open_) write(of, s);
}

// --- all of them ---

void launch_table::add(const kernel& k) {
  launch l{.begin = k.begin, .end = k.end, .gpu = k.gpu, .stream = k.stream, .moved = {}};
  l.name = to_.name_of(k.name);
  l.number = next_number(l.gpu, l.name);
  by_gpu_[k.gpu].push_back(std::move(l));
}

void launch_table::miss(nanoseconds from) {
  missed_.emplace_back(from, 0);
}

void launch_table::count(nanoseconds from) {
  if (!missed_.empty()) missed_.back().second = from;
}

bool launch_table::was_counted(const launch& l) const {
  return std::none_of(missed_.begin(), missed_.end(), [&](const auto& of) {
    return of.first < l.end && (of.second == 0 || l.begin < of.second);
  });
}

void launch_table::sort() {
  for (auto& [gpu, all] : by_gpu_)
    std::stable_sort(all.begin(), all.end(),
                     [](const launch& a, const launch& b) { return a.begin < b.begin; });
  std::sort(busy_.begin(), busy_.end());
}

launch* launch_table::find(const event& e) {
  const auto of_gpu = by_gpu_.find(e.device);
  if (of_gpu == by_gpu_.end()) return nullptr;
  std::vector<launch>& all = of_gpu->second;
  const nanoseconds at = e.begin;
  auto next = std::upper_bound(all.begin(), all.end(), at + clock_skew,
                               [](nanoseconds t, const launch& l) { return t < l.begin; });
  constexpr int most_looks = 64;  // launches that run at once
  launch* near = nullptr;
  for (int looks = 0; next != all.begin() && looks < most_looks; ++looks) {
    --next;
    if (next->begin <= at && at <= next->end) return &*next;
    if (next->begin <= at + clock_skew && at <= next->end + clock_skew && near == nullptr) near = &*next;
  }
  return near;
}

bool launch_table::take(const event& e) {
  launch* const l = find(e);
  if (l == nullptr) return false;
  if (l->moved.empty()) busy_.push_back(l->begin);
  l->moved.add(e);
  return true;
}

bool launch_table::began_between(nanoseconds after, nanoseconds until) const {
  const auto next = std::upper_bound(busy_.begin(), busy_.end(), after);
  return next != busy_.end() && *next <= until;
}

void launch_table::write(nanoseconds before) {
  for (auto& [gpu, all] : by_gpu_) {
    const auto kept =
        std::stable_partition(all.begin(), all.end(), [&](const launch& l) { return l.end < before; });
    for (auto l = all.begin(); l != kept; ++l) {
      if (l->moved.empty()) {
        quiet_.add(*l, was_counted(*l));
        continue;
      }
      to_.block_line(kind("kernel") + field("name", l->name) + field("launch", l->number) +
                     field("gpu", gpu) + field("stream", l->stream) + to_.time("begin_ns", l->begin) +
                     to_.time("end_ns", l->end) + l->moved.fields());
    }
    all.erase(all.begin(), kept);
  }
  busy_.erase(busy_.begin(), std::lower_bound(busy_.begin(), busy_.end(), before - longest_memory));
}

void launch_table::finish() {
  quiet_.finish();
}

}  // namespace um::tracing
