#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>

#include "measure/families.hpp"

namespace um::measure {
namespace {

std::vector<managed_range> cut_into_calls(managed_range whole, byte_count each) {
  std::vector<managed_range> parts;
  for (byte_count at = 0; at < whole.bytes; at += each) {
    parts.push_back({whole.data + at, std::min(each, whole.bytes - at)});
  }
  return parts;
}

// Distributes the calls over the threads and the streams in turn.
void issue_all(const bench& on, const prefetch_settings& what, const std::vector<managed_range>& parts) {
  if (what.uses_batch_call) {
    if (what.direction == copy_direction::to_device)
      return prefetch_batch_to_device(parts, on.device(), on.stream());
    return prefetch_batch_to_host(parts, on.stream());
  }
  const auto share = [&](std::size_t thread) {
    for (std::size_t i = thread; i < parts.size(); i += static_cast<std::size_t>(what.threads)) {
      prefetch(on, what.direction, parts[i], i % static_cast<std::size_t>(what.streams));
    }
  };
  std::vector<std::future<void>> others;
  for (int t = 1; t < what.threads; ++t) {
    others.push_back(std::async(std::launch::async, share, static_cast<std::size_t>(t)));
  }
  share(0);
  for (std::future<void>& other : others) other.get();
}

// Managed memory in the state in which the prefetch starts.
class prefetched_data {
 public:
  prefetched_data(bench& on, const prefetch_settings& what) : bench_(on), what_(what) {
    if (!what.is_populated) return;
    memory_ = on.managed_memory(what.bytes);
    fill_by_host(memory_.range());
    bring_to_device(on, memory_.range());
  }
  void reset() {
    if (!what_.is_populated) {
      memory_.release();
      memory_ = bench_.managed_memory(what_.bytes);
      if (what_.direction == copy_direction::to_device) return;
      touch_all(bench_.site(), memory_.data(), what_.bytes, access::write);
      return check(cudaStreamSynchronize(bench_.stream()));
    }
    if ((what_.direction == copy_direction::to_device) == what_.is_in_place) {
      bring_to_device(bench_, memory_.range());
    } else {
      bring_to_host(bench_, memory_.range());
    }
  }
  repetition run() const {
    const std::vector<managed_range> parts = cut_into_calls(memory_.range(), what_.call_bytes);
    if (what_.is_stream_busy) occupy_stream(bench_, 0);
    repetition r = time_by_host([&] { issue_all(bench_, what_, parts); });
    r.counters["calls"] = what_.uses_batch_call ? 1 : static_cast<double>(parts.size());
    return r;
  }

 private:
  bench& bench_;
  prefetch_settings what_;
  leased_memory memory_;
};

std::string prefetch_reset_text(const prefetch_settings& p) {
  const bool to_device = p.direction == copy_direction::to_device;
  if (!p.is_populated)
    return to_device ? "allocated anew, touched by nobody" : "allocated anew and written by the GPU";
  return to_device == p.is_in_place ? "prefetched to the GPU" : "prefetched to the CPU, where it is mapped";
}

std::string prefetch_name(const prefetch_settings& p) {
  std::string name = p.direction == copy_direction::to_device ? "prefetch/to_device" : "prefetch/to_host";
  name += p.is_in_place ? "/data:there" : p.is_populated ? "/data:moves" : "/data:new";
  name += "/size:" + bytes_text(p.bytes) + "/call:" + bytes_text(p.call_bytes);
  if (p.is_stream_busy) name += "/queued";
  if (p.uses_batch_call) return name + "/batch";
  return name + "/streams:" + std::to_string(p.streams) + "/threads:" + std::to_string(p.threads);
}

nanoseconds elapsed(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - since)
      .count();
}

}  // namespace

void prefetch(const bench& on, copy_direction direction, managed_range what, std::size_t stream) {
  if (direction == copy_direction::to_device) return prefetch_to_device(what, on.device(), on.stream(stream));
  prefetch_to_host(what, on.stream(stream));
}

repetition prefetch_both_ways_at_once(const bench& on, managed_range in, managed_range out) {
  nanoseconds in_ns = 0, out_ns = 0;
  repetition r = time_by_host([&] {
    const auto begin = std::chrono::steady_clock::now();
    const auto move = [&](copy_direction direction, managed_range what, std::size_t stream,
                          nanoseconds& took) {
      prefetch(on, direction, what, stream);
      check(cudaStreamSynchronize(on.stream(stream)));
      took = elapsed(begin);
    };
    std::future<void> other =
        std::async(std::launch::async, [&] { move(copy_direction::to_host, out, 1, out_ns); });
    move(copy_direction::to_device, in, 0, in_ns);
    other.get();
  });
  r.counters["to_device_ns"] = static_cast<double>(in_ns);
  r.counters["to_host_ns"] = static_cast<double>(out_ns);
  return r;
}

benchmark_case prefetch_case(const prefetch_settings& what) {
  benchmark_case m;
  m.name = prefetch_name(what);
  m.bytes = what.bytes;
  m.link_direction = what.is_in_place || (what.direction == copy_direction::to_device && !what.is_populated)
                         ? copy_direction::none
                         : what.direction;
  m.reset_text = prefetch_reset_text(what);
  m.migrates = true;
  if (!what.is_in_place && what.direction == copy_direction::to_host) m.expected_out_bytes = what.bytes;
  if (!what.is_in_place && what.direction == copy_direction::to_device && what.is_populated)
    m.expected_in_bytes = what.bytes;
  m.repetitions = what.bytes <= 32 * MiB ? 10 : 3;
  m.prepare = [what](bench& on) -> trial {
    const auto site = std::make_shared<prefetched_data>(on, what);
    return {[site] { site->reset(); }, [site] { return site->run(); }};
  };
  return m;
}

benchmark_case prefetch_both_ways(byte_count bytes) {
  benchmark_case m;
  m.name = "prefetch/both/size:" + bytes_text(bytes);
  m.bytes = bytes;
  m.link_direction = copy_direction::both;
  m.reset_text = "one half prefetched to the CPU, the other to the GPU";
  m.migrates = true;
  m.prepare = [half = bytes / 2](bench& on) -> trial {
    const auto in = std::make_shared<leased_memory>(on.managed_memory(half));
    const auto out = std::make_shared<leased_memory>(on.managed_memory(half));
    fill_by_host(in->range());
    fill_by_host(out->range());
    return {[&on, in, out] {
              bring_to_device(on, out->range());
              bring_to_device(on, in->range());
              bring_to_host(on, in->range());
            },
            [&on, in, out] { return prefetch_both_ways_at_once(on, in->range(), out->range()); }};
  };
  return m;
}

std::vector<benchmark_case> prefetch_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (const copy_direction direction : {copy_direction::to_device, copy_direction::to_host}) {
    for (const byte_count bytes : {64 * KiB, 2 * MiB, 32 * MiB, 256 * MiB, GiB}) {
      all.push_back(prefetch_case({.direction = direction, .bytes = bytes, .call_bytes = bytes}));
    }
    constexpr byte_count bytes = 256 * MiB;
    for (const byte_count call : {2 * MiB, 16 * MiB, 64 * MiB}) {
      for (const int streams : {1, 4}) {
        for (const int threads : {1, 4}) {
          all.push_back(prefetch_case({direction, bytes, call, streams, threads}));
        }
      }
      all.push_back(prefetch_case(
          {.direction = direction, .bytes = bytes, .call_bytes = call, .uses_batch_call = true}));
    }
    all.push_back(
        prefetch_case({.direction = direction, .bytes = bytes, .call_bytes = bytes, .is_in_place = true}));
    all.push_back(
        prefetch_case({.direction = direction, .bytes = bytes, .call_bytes = 2 * MiB, .is_in_place = true}));
    all.push_back(
        prefetch_case({.direction = direction, .bytes = bytes, .call_bytes = bytes, .is_populated = false}));
    all.push_back(
        prefetch_case({.direction = direction, .bytes = bytes, .call_bytes = bytes, .is_stream_busy = true}));
  }
  all.push_back(prefetch_both_ways(GiB));
  // This needs more host pages than were just freed, so the first repetition allocates new ones, as the first
  // iteration of a run does.
  all.push_back(prefetch_case({.direction = copy_direction::to_host,
                               .bytes = 4 * GiB,
                               .call_bytes = 4 * GiB,
                               .is_populated = false}));
  return all;
}

}  // namespace um::measure
