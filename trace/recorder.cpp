#include "trace/recorder.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "trace/line_writer.hpp"

namespace um::tracing {
namespace {

constexpr std::size_t max_waiting_events = 200'000;
constexpr nanoseconds longest_pause =
    10'000'000;  // longest time between two events of a line about the host or prefetches

quantity quantity_moved(cause why, bool to_host) {
  const auto first = static_cast<std::size_t>(to_host ? quantity::out_unknown : quantity::in_unknown);
  return static_cast<quantity>(first + static_cast<std::size_t>(why));
}

bool caused_by_user(quantity what) {
  return what == quantity::in_user || what == quantity::out_user;
}
bool caused_by_host(quantity what) {
  return what == quantity::cpu_read_faults || what == quantity::cpu_write_faults ||
         what == quantity::out_demand || what == quantity::out_tree;
}

bool writes(access access_kind) {
  return access_kind == access::write || access_kind == access::atomic;
}

std::uint32_t granules_between(std::uint64_t first, std::uint64_t last) {
  std::uint32_t mask = 0;
  for (std::uint64_t g = first; g <= last; ++g) mask |= std::uint32_t{1} << g;
  return mask;
}

quantity quantity_of(contention what) {
  if (what == contention::thrashing) return quantity::thrashing;
  return what == contention::throttling ? quantity::throttling : quantity::remote_maps;
}

std::string fields_of(const driver_sums& sums) {
  return field("to_gpus", sums.to_gpus) + field("to_host", sums.to_host) +
         field("gpu_faults", sums.gpu_faults) + field("cpu_faults", sums.cpu_faults);
}

nanoseconds time_of(std::uint64_t time) {
  return static_cast<nanoseconds>(time);
}

template <class Enum>
Enum enum_or_default(std::uint32_t flags, Enum last) {
  return flags <= static_cast<std::uint32_t>(last) ? static_cast<Enum>(flags) : Enum{};
}

// The caller gives source and destination, since driver 580 gives the CPU the number 0, as the first GPU.
migration migration_of(const unified_memory_record& r, std::uint32_t source, std::uint32_t destination) {
  return {time_of(r.start),
          time_of(r.end),
          r.address,
          r.value,
          source,
          destination,
          enum_or_default(r.flags, cause::access_counter)};
}

}  // namespace

// --- what happened ---

void recorder::split_by_block(event e, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + std::max<std::uint64_t>(bytes, 1);
  e.records = 1;
  for (std::uint64_t at = address; at < end;) {
    e.block = at >> block_shift;
    const std::uint64_t until = std::min(end, (e.block + 1) << block_shift);
    const auto granule = [&](std::uint64_t a) { return (a - (e.block << block_shift)) >> granule_shift; };
    e.granules = granules_between(granule(at), granule(until - 1));
    if (bytes > 0) e.amount = until - at;
    events_.push_back(e);
    e.records = 0;
    at = until;
  }
}

void recorder::add(const migration& m) {
  event e{.begin = m.begin, .end = m.end};
  e.device = m.destination == host ? m.source : m.destination;
  e.what = quantity_moved(m.why, m.destination == host);
  if (m.source != host && m.destination != host && m.source != m.destination) e.what = quantity::in_peer;
  split_by_block(e, m.address, m.bytes);
}

void recorder::add(const gpu_fault& f) {
  split_by_block({.begin = f.begin,
                  .end = f.end,
                  .amount = f.groups,
                  .device = f.gpu,
                  .what = writes(f.access_kind) ? quantity::gpu_write_faults : quantity::gpu_read_faults},
                 f.address, 0);
}

void recorder::add(const cpu_fault& f) {
  split_by_block({.begin = f.at,
                  .end = f.at,
                  .amount = 1,
                  .program_counter = f.program_counter,
                  .what = writes(f.access_kind) ? quantity::cpu_write_faults : quantity::cpu_read_faults},
                 f.address, 0);
}

void recorder::add(const contention_event& c) {
  event e{.begin = c.at, .end = c.at, .amount = 1, .device = c.device, .what = quantity_of(c.what)};
  e.block = c.address >> block_shift;
  events_.push_back(e);
}

void recorder::add_timed(const kernel& k) {
  if (!lines_.count_line_within_limit(timed_line_count_, "times of launches")) return;
  const std::uint32_t name = lines_.name_id(k.name);
  lines_.write_line(kind_field("timed") + field("name", name) +
                    field("launch", launches_.next_number(k.gpu, name)) + field("gpu", k.gpu) +
                    lines_.time_field("begin_ns", k.begin) + lines_.time_field("end_ns", k.end));
}

void recorder::add(const allocation& a) {
  const std::string called = lines_.callers_field(a.callers);
  lines_.write_line(kind_field("allocation") + lines_.time_field("at_ns", a.at) +
                    field("address", a.address) + field("bytes", a.bytes) + device_field(a.device) +
                    field("memory", a.memory) + called);
}

void recorder::add(const hint& h) {
  if (!lines_.count_line_within_limit(hint_count_, "prefetch and advice calls")) return;
  const std::string called = lines_.callers_field(h.callers);
  lines_.write_line(kind_field("hint") + lines_.time_field("at_ns", h.at) +
                    lines_.time_field("until_ns", h.until) + field("call", h.call) +
                    field("address", h.address) + field("bytes", h.bytes) + device_field(h.device) + called);
}

void recorder::add(const range& r) {
  if (!lines_.count_line_within_limit(range_count_, "named ranges")) return;
  const std::uint32_t name = lines_.name_id(r.name);
  lines_.write_line(kind_field("range") + lines_.time_field("begin_ns", r.begin) +
                    lines_.time_field("end_ns", r.end) + field("name", name));
}

void recorder::pause(nanoseconds at, const driver_sums& sums) {
  paused_at_ = at;
  sums_at_pause_ = sums;
  launches_.begin_uncounted(at);
}

void recorder::resume(nanoseconds at, const driver_sums& sums) {
  if (paused_at_ == 0) return;
  lines_.write_line(kind_field("uncounted") + lines_.time_field("begin_ns", paused_at_) +
                    lines_.time_field("end_ns", at) + fields_of(sums - sums_at_pause_));
  paused_at_ = 0;
  launches_.end_uncounted(at);
}

// --- assigning events to launches and to lines ---

void recorder::write_sum(sum_of_cause& of) {
  if (of.moved.empty()) return;
  const std::string place = lines_.place_field(of.moved.program_counter());
  lines_.write_limited_line(kind_field(of.kind) + lines_.time_field("begin_ns", of.moved.begin()) +
                            lines_.time_field("end_ns", of.moved.end()) + of.moved.json_fields() + place);
  of.moved = {};
}

// Adds an event to the line of its cause. Writes that line first if it has had no event for longest_pause, or
// if a launch that moved data has begun since the line did: so lines sorted by time give the order of
// accesses.
void recorder::add_to_sum_of_cause(const event& e) {
  sum_of_cause& into = caused_by_user(e.what) ? user_ : caused_by_host(e.what) ? host_ : other_;
  if (!into.moved.empty() && (launches_.has_moving_launch_between(into.moved.begin(), e.begin) ||
                              e.begin > into.moved.end() + longest_pause))
    write_sum(into);
  into.moved.add(e);
}

void recorder::assign_events(nanoseconds before, bool at_end) {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const event& a, const event& b) { return a.begin < b.begin; });
  launches_.sort();
  std::vector<event> kept, no_launch;
  for (const event& e : events_) {
    if (e.begin >= before) {
      kept.push_back(e);
    } else if (caused_by_user(e.what) || caused_by_host(e.what)) {
      no_launch.push_back(e);
    } else if (!launches_.add_to_launch(e)) {
      (at_end ? no_launch : kept).push_back(e);  // kept: it may belong to a kernel that still runs
    }
  }
  launches_.sort();
  for (const event& e : no_launch) add_to_sum_of_cause(e);
  events_ = std::move(kept);
  if (events_.size() > max_waiting_events) merge_old_events();
}

// Merges the events so far of kernels that still run into one for each block and kind. Their service times
// are lost.
void recorder::merge_old_events() {
  std::map<std::tuple<std::uint32_t, quantity, std::uint64_t>, event> sums;
  for (const event& e : events_) {
    const auto [at, is_new] = sums.try_emplace({e.device, e.what, e.block}, e);
    if (is_new) continue;
    event& sum = at->second;
    sum.amount += e.amount;
    sum.granules |= e.granules;
    sum.records += e.records;
  }
  events_.clear();
  for (const auto& [key, e] : sums) events_.push_back(e);
  note_missing("part of the time that kernels waited for faults: one ran long with many of them");
}

void recorder::write_settled(nanoseconds now) {
  assign_events(now - assignment_delay, false);
  launches_.write_ended_launches(now - 2 * assignment_delay);
  lines_.flush();
}

void recorder::finish(nanoseconds now, const driver_sums* sums) {
  assign_events(now + assignment_delay, true);
  for (sum_of_cause* of : {&user_, &host_, &other_}) write_sum(*of);
  launches_.write_ended_launches(now + assignment_delay);
  launches_.finish();
  resume(now, sums != nullptr ? *sums : sums_at_pause_);
  lines_.write_line(kind_field("end") + lines_.time_field("at_ns", now) +
                    field("lost_records", lost_records_) +
                    (sums != nullptr ? fields_of(*sums) : std::string{}));
  lines_.flush();
}

void add(recorder& to, const unified_memory_record& r) {
  switch (r.counter) {
    case counter_kind::bytes_to_device:
      return to.add(migration_of(r, host, r.destination));
    case counter_kind::bytes_to_host:
      return to.add(migration_of(r, r.source, host));
    case counter_kind::bytes_between_devices:
      return to.add(migration_of(r, r.source, r.destination));
    case counter_kind::cpu_page_fault:
      return to.add(
          cpu_fault{time_of(r.start), r.address, r.value, enum_or_default(r.flags, access::prefetch)});
    case counter_kind::gpu_page_fault:
      return to.add(gpu_fault{time_of(r.start), time_of(r.end), r.address, r.value, r.source,
                              enum_or_default(r.flags, access::prefetch)});
    case counter_kind::thrashing:
      return to.add(contention_event{time_of(r.start), r.address, r.value, 0, contention::thrashing});
    case counter_kind::throttling:
      return to.add(contention_event{time_of(r.start), r.address, 0, r.source, contention::throttling});
    case counter_kind::remote_map:
      return to.add(contention_event{time_of(r.start), r.address, r.value, r.source, contention::remote_map});
  }
}

}  // namespace um::tracing
