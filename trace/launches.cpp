#include <algorithm>

#include "trace/line_writer.hpp"
#include "trace/recorder.hpp"

namespace um::tracing {
namespace {

constexpr nanoseconds quiet_stretch = 1'000'000'000;
constexpr nanoseconds clock_skew = 50'000;  // tolerance between the clocks of GPU and driver
// The begin times of kernels are kept this long, since lines without a launch end where a kernel began.
constexpr nanoseconds begins_kept_for = 200'000'000;

void append_entry(std::string& list, const std::string& entry) {
  if (!list.empty()) list += ',';
  list += entry;
}

}  // namespace

// --- launches that moved nothing, which are summed ---

void summed_launches::total::add(std::uint64_t more_bytes, nanoseconds time) {
  ++count;
  bytes += more_bytes;
  busy += time;
}

summed_launches::time_slice& summed_launches::slice_for(key of, nanoseconds begin, nanoseconds end) {
  time_slice& s = slices_[of];
  if (s.begin != 0 && begin > s.begin + quiet_stretch) write(of, s);
  if (s.begin == 0 || begin < s.begin) s.begin = begin;
  s.end = std::max(s.end, end);
  return s;
}

void summed_launches::write(key of, time_slice& s) {
  if (s.begin == 0) return;
  std::string kernels, copies;
  for (const auto& [name, sum] : s.kernels)
    append_entry(kernels, '[' + std::to_string(name) + ',' + std::to_string(sum.count) + ',' +
                              std::to_string(sum.busy) + ']');
  for (const auto& [way, sum] : s.copies)
    append_entry(copies, quoted(way) + ":[" + std::to_string(sum.count) + ',' + std::to_string(sum.bytes) +
                             ',' + std::to_string(sum.busy) + ']');
  writer_.write_line(kind_field(of.second ? "quiet" : "unseen") + field("gpu", of.first) +
                     writer_.time_field("begin_ns", s.begin) + writer_.time_field("end_ns", s.end) +
                     ",\"kernels\":[" + kernels + "],\"copies\":{" + copies + '}');
  s = {};
}

// --- all launches ---

void launch_table::add(const kernel& k) {
  launch l{.begin = k.begin, .end = k.end, .gpu = k.gpu, .stream = k.stream, .moved = {}};
  l.name = writer_.name_id(k.name);
  l.number = next_number(l.gpu, l.name);
  by_gpu_[k.gpu].push_back(std::move(l));
}

bool launch_table::was_counted(const launch& l) const {
  return std::none_of(uncounted_.begin(), uncounted_.end(), [&](const auto& of) {
    return of.first < l.end && (of.second == 0 || l.begin < of.second);
  });
}

void launch_table::sort() {
  for (auto& [gpu, all] : by_gpu_)
    std::stable_sort(all.begin(), all.end(),
                     [](const launch& a, const launch& b) { return a.begin < b.begin; });
  std::sort(begins_of_moving_launches_.begin(), begins_of_moving_launches_.end());
}

launch* launch_table::find_launch(const event& e) {
  const auto of_gpu = by_gpu_.find(e.device);
  if (of_gpu == by_gpu_.end()) return nullptr;
  std::vector<launch>& all = of_gpu->second;
  const nanoseconds at = e.begin;
  auto next = std::upper_bound(all.begin(), all.end(), at + clock_skew,
                               [](nanoseconds t, const launch& l) { return t < l.begin; });
  constexpr int max_candidates = 64;  // the number of launches that can run at once
  launch* near = nullptr;
  for (int candidates = 0; next != all.begin() && candidates < max_candidates; ++candidates) {
    --next;
    if (next->begin <= at && at <= next->end) return &*next;
    if (next->begin <= at + clock_skew && at <= next->end + clock_skew && near == nullptr) near = &*next;
  }
  return near;
}

bool launch_table::add_to_launch(const event& e) {
  launch* const l = find_launch(e);
  if (l == nullptr) return false;
  if (l->moved.empty()) begins_of_moving_launches_.push_back(l->begin);
  l->moved.add(e);
  return true;
}

bool launch_table::has_moving_launch_between(nanoseconds after, nanoseconds until) const {
  const auto next =
      std::upper_bound(begins_of_moving_launches_.begin(), begins_of_moving_launches_.end(), after);
  return next != begins_of_moving_launches_.end() && *next <= until;
}

void launch_table::write_ended_launches(nanoseconds before) {
  for (auto& [gpu, all] : by_gpu_) {
    const auto kept =
        std::stable_partition(all.begin(), all.end(), [&](const launch& l) { return l.end < before; });
    for (auto l = all.begin(); l != kept; ++l) {
      if (l->moved.empty()) {
        summed_.add(*l, was_counted(*l));
        continue;
      }
      writer_.write_limited_line(kind_field("kernel") + field("name", l->name) + field("launch", l->number) +
                                 field("gpu", gpu) + field("stream", l->stream) +
                                 writer_.time_field("begin_ns", l->begin) +
                                 writer_.time_field("end_ns", l->end) + l->moved.json_fields());
    }
    all.erase(all.begin(), kept);
  }
  begins_of_moving_launches_.erase(
      begins_of_moving_launches_.begin(),
      std::lower_bound(begins_of_moving_launches_.begin(), begins_of_moving_launches_.end(),
                       before - begins_kept_for));
}

}  // namespace um::tracing
