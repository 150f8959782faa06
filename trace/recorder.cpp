#include "trace/recorder.hpp"

#include <algorithm>
#include <utility>

#include "trace/text.hpp"

namespace um::tracing {
namespace {

constexpr std::size_t most_waiting_events = 200'000;
constexpr std::uint64_t most_lines = 100'000;  // of hints, and of named ranges
constexpr nanoseconds quiet_stretch = 1'000'000'000;
constexpr nanoseconds clock_skew = 50'000;         // between the clocks of GPU and driver
constexpr nanoseconds longest_pause = 10'000'000;  // within one line of the host or of prefetches

quantity moved_by(cause why, bool to_host) {
  const auto first = static_cast<std::size_t>(to_host ? quantity::out_unknown : quantity::in_unknown);
  return static_cast<quantity>(first + static_cast<std::size_t>(why));
}

bool by_user(quantity what) {
  return what == quantity::in_user || what == quantity::out_user;
}
bool by_host(quantity what) {
  return what == quantity::cpu_read_faults || what == quantity::cpu_write_faults ||
         what == quantity::out_demand || what == quantity::out_tree;
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

}  // namespace

recorder::recorder(sinks to, nanoseconds start) : to_(std::move(to)), start_(start) {}

void recorder::line(const std::string& fields) {
  text_ += '{';
  text_ += fields;
  text_ += "}\n";
}

std::uint32_t recorder::name_of(std::string_view text) {
  const auto [at, is_new] = names_.try_emplace(std::string(text), static_cast<std::uint32_t>(names_.size()));
  if (is_new) line(kind("name") + field("id", at->second) + field("name", text));
  return at->second;
}

std::string recorder::places(const std::vector<std::string>& called) {
  std::string out;
  for (const std::string& place : called) {
    if (!out.empty()) out += ',';
    out += std::to_string(name_of(place));
  }
  return ",\"called\":[" + out + ']';
}

void recorder::split(event e, std::uint64_t address, std::uint64_t bytes) {
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
  e.what = moved_by(m.why, m.destination == host);
  if (m.source != host && m.destination != host && m.source != m.destination) e.what = quantity::in_peer;
  split(e, m.address, m.bytes);
}

void recorder::add(const gpu_fault& f) {
  const bool writes = f.how == access::write || f.how == access::atomic;
  split({.begin = f.begin,
         .end = f.end,
         .amount = f.groups,
         .device = f.gpu,
         .what = writes ? quantity::gpu_write_faults : quantity::gpu_read_faults},
        f.address, 0);
}

void recorder::add(const cpu_fault& f) {
  const bool writes = f.how == access::write || f.how == access::atomic;
  split({.begin = f.at,
         .end = f.at,
         .amount = 1,
         .program_counter = f.program_counter,
         .what = writes ? quantity::cpu_write_faults : quantity::cpu_read_faults},
        f.address, 0);
}

void recorder::add(const contended& c) {
  event e{.begin = c.at, .end = c.at, .amount = 1, .device = c.device, .what = quantity_of(c.what)};
  e.block = c.address >> block_shift;
  events_.push_back(e);
}

void recorder::add(const kernel& k) {
  const std::uint32_t name = name_of(k.name);
  launch l{.begin = k.begin, .end = k.end, .gpu = k.gpu, .stream = k.stream, .name = name, .moved = {}};
  l.number = launched_[{k.gpu, name}]++;
  launches_[k.gpu].push_back(std::move(l));
}

void recorder::add_timed(const kernel& k) {
  if (!below_limit(timed_, "times of launches")) return;
  const std::uint32_t name = name_of(k.name);
  line(kind("timed") + field("name", name) + field("launch", launched_[{k.gpu, name}]++) +
       field("gpu", k.gpu) + field("begin_ns", k.begin - start_) + field("end_ns", k.end - start_));
}

void recorder::add(const copy& c) {
  total& of = quiet_at(c.gpu, c.begin, c.end).copies[std::string(c.way)];
  ++of.count;
  of.bytes += c.bytes;
  of.busy += c.end - c.begin;
}

void recorder::add(const allocation& a) {
  const std::string called = places(a.called);
  line(kind("allocation") + field("at_ns", a.at - start_) + field("address", a.address) +
       field("bytes", a.bytes) + device_field(a.device) + field("memory", a.memory) + called);
}

void recorder::add(const release& r) {
  line(kind("free") + field("at_ns", r.at - start_) + field("address", r.address));
}

// Lines that tell blocks; a long program with many of them gets no endless file.
void recorder::block_line(const std::string& fields) {
  block_bytes_written_ += fields.size();
  if (block_bytes_written_ > to_.most_bytes)
    return lack("what moved after the first " + std::to_string(to_.most_bytes / 1'000'000) + " MB of lines");
  line(fields);
}

bool recorder::below_limit(std::uint64_t& lines, const char* what) {
  if (++lines <= most_lines) return true;
  lack(std::string(what) + " after the first " + std::to_string(most_lines));
  return false;
}

void recorder::add(const hint& h) {
  if (!below_limit(hints_, "prefetch and advice calls")) return;
  const std::string called = places(h.called);
  line(kind("hint") + field("at_ns", h.at - start_) + field("until_ns", h.until - start_) +
       field("call", h.call) + field("address", h.address) + field("bytes", h.bytes) +
       device_field(h.device) + called);
}

void recorder::add(const range& r) {
  if (!below_limit(ranges_, "named ranges")) return;
  const std::uint32_t name = name_of(r.name);
  line(kind("range") + field("begin_ns", r.begin - start_) + field("end_ns", r.end - start_) +
       field("name", name));
}

void recorder::lack(const std::string& what) {
  if (std::find(lacking_.begin(), lacking_.end(), what) != lacking_.end()) return;
  lacking_.push_back(what);
  line(kind("lacking") + field("what", what));
}

// The last launch that had begun and not ended. Sorted by begin.
recorder::launch* recorder::launch_at(const event& e) {
  const auto of_gpu = launches_.find(e.device);
  if (of_gpu == launches_.end()) return nullptr;
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

void recorder::close(bin& of, const char* what) {
  if (of.empty()) return;
  std::string fields = kind(what) + field("begin_ns", of.begin() - start_) +
                       field("end_ns", of.end() - start_) + field("records", of.records()) + ',' + of.json();
  if (of.program_counter() != 0 && to_.place) {
    const std::uint32_t place = name_of(to_.place(of.program_counter()));
    fields += field("place", place);
  }
  block_line(fields);
  of = {};
}

// A line ends where a launch began that moved something, so that reading the lines by time gives the order of
// accesses.
void recorder::settle_elsewhere(bin& into, const char* what, const event& e) {
  if (!into.empty()) {
    const auto next = std::upper_bound(busy_.begin(), busy_.end(), into.begin());
    const bool launch_between = next != busy_.end() && *next <= e.begin;
    if (launch_between || e.begin > into.end() + longest_pause) close(into, what);
  }
  into.add(e);
}

void recorder::settle(nanoseconds before, bool all) {
  const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  std::stable_sort(events_.begin(), events_.end(), by_begin);
  for (auto& [gpu, of] : launches_) std::stable_sort(of.begin(), of.end(), by_begin);
  std::vector<event> kept, elsewhere;
  for (const event& e : events_) {
    if (e.begin >= before) {
      kept.push_back(e);
    } else if (by_user(e.what) || by_host(e.what)) {
      elsewhere.push_back(e);
    } else if (launch* const l = launch_at(e)) {
      if (l->moved.empty()) busy_.push_back(l->begin);
      l->moved.add(e);
    } else if (all) {
      elsewhere.push_back(e);
    } else {
      kept.push_back(e);  // of a kernel that still runs
    }
  }
  std::sort(busy_.begin(), busy_.end());
  for (const event& e : elsewhere) {
    if (by_user(e.what)) {
      settle_elsewhere(user_, "prefetched", e);
    } else if (by_host(e.what)) {
      settle_elsewhere(host_, "host", e);
    } else {
      settle_elsewhere(other_, "other", e);
    }
  }
  events_ = std::move(kept);
  if (events_.size() > most_waiting_events) compress();
}

// What a kernel that still runs did to a block so far becomes one event of each kind. Times of service are
// lost.
void recorder::compress() {
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
  lack("part of the time that kernels waited for faults: one ran long with many of them");
}

void recorder::write_launch(const launch& l) {
  if (l.moved.empty()) {
    total& of = quiet_at(l.gpu, l.begin, l.end).kernels[l.name];
    ++of.count;
    of.busy += l.end - l.begin;
    return;
  }
  block_line(kind("kernel") + field("name", l.name) + field("launch", l.number) + field("gpu", l.gpu) +
             field("stream", l.stream) + field("begin_ns", l.begin - start_) +
             field("end_ns", l.end - start_) + field("waiting_ns", l.moved.waiting()) +
             field("batches", l.moved.batches()) + field("records", l.moved.records()) + ',' +
             l.moved.json());
}

void recorder::write_launches(nanoseconds before) {
  for (auto& [gpu, all] : launches_) {
    std::vector<launch> kept;
    for (launch& l : all) {
      if (l.end < before) {
        write_launch(l);
      } else {
        kept.push_back(std::move(l));
      }
    }
    all = std::move(kept);
  }
  busy_.erase(busy_.begin(), std::lower_bound(busy_.begin(), busy_.end(), before - 2 * grace));
}

recorder::stretch& recorder::quiet_at(std::uint32_t gpu, nanoseconds begin, nanoseconds end) {
  stretch& s = quiet_[gpu];
  if (s.begin != 0 && begin > s.begin + quiet_stretch) write_quiet(gpu, s);
  if (s.begin == 0 || begin < s.begin) s.begin = begin;
  s.end = std::max(s.end, end);
  return s;
}

void recorder::write_quiet(std::uint32_t gpu, stretch& s) {
  if (s.begin == 0) return;
  std::string kernels, copies;
  for (const auto& [name, of] : s.kernels) {
    if (!kernels.empty()) kernels += ',';
    kernels +=
        '[' + std::to_string(name) + ',' + std::to_string(of.count) + ',' + std::to_string(of.busy) + ']';
  }
  for (const auto& [way, of] : s.copies) {
    if (!copies.empty()) copies += ',';
    copies += quoted(way) + ":[" + std::to_string(of.count) + ',' + std::to_string(of.bytes) + ',' +
              std::to_string(of.busy) + ']';
  }
  line(kind("quiet") + field("gpu", gpu) + field("begin_ns", s.begin - start_) +
       field("end_ns", s.end - start_) + ",\"kernels\":[" + kernels + "],\"copies\":{" + copies + '}');
  s = {};
}

void recorder::drain(nanoseconds now) {
  settle(now - grace, false);
  write_launches(now - 2 * grace);
  if (!text_.empty()) to_.write(text_);
  text_.clear();
}

void recorder::finish(nanoseconds now) {
  settle(now + grace, true);
  close(user_, "prefetched");
  close(host_, "host");
  close(other_, "other");
  write_launches(now + grace);
  for (auto& [gpu, s] : quiet_) write_quiet(gpu, s);
  line(kind("end") + field("at_ns", now - start_) + field("lost_records", lost_));
  if (!text_.empty()) to_.write(text_);
  text_.clear();
}

}  // namespace um::tracing
