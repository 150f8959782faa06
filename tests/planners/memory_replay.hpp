// Replays a lowered plan on memory in which every byte says whose it is: which byte of which tensor, and
// which write it comes from.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <vector>

#include "core/lower.hpp"

namespace um::testing {

// Bytes of a tensor, as a writer left them. Copies keep it.
struct provenance {
  tensor_id what = std::numeric_limits<tensor_id>::max();
  byte_count first = 0;  // of the tensor, modulo 2^64 minus where it lies: equal for neighbours
  std::uint32_t written = 0;
  friend bool operator==(const provenance&, const provenance&) = default;
};
inline constexpr provenance garbage{};

// One value for each byte, in stretches.
template <class Value>
class stretches {
 public:
  void set(byte_count begin, byte_count end, const Value& value) {
    if (begin == end) return;
    split(begin);
    split(end);
    all_.erase(all_.lower_bound(begin), all_.lower_bound(end));
    all_[begin] = {end, value};
  }
  // f(begin, end, value) for what is known of [begin, end), in order; false if there are holes.
  bool visit(byte_count begin, byte_count end, auto&& f) const {
    auto at = all_.upper_bound(begin);
    if (at == all_.begin()) return false;
    for (--at; begin < end; ++at) {
      if (at == all_.end() || at->first > begin || at->second.end <= begin) return false;
      const byte_count last = std::min(end, at->second.end);
      f(begin, last, at->second.value);
      begin = last;
    }
    return true;
  }

 private:
  struct stretch {
    byte_count end = 0;
    Value value;
  };
  void split(byte_count at) {
    auto next = all_.upper_bound(at);
    if (next == all_.begin()) return;
    const auto before = std::prev(next);
    if (before->first == at || before->second.end <= at) return;
    all_[at] = before->second;
    before->second.end = at;
  }
  std::map<byte_count, stretch> all_;
};

class memory_replay {
 public:
  memory_replay(const graph& g, const execution_plan& e) : g_(g), latest_(g.tensors.size()) {
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      latest_[t].set(0, bytes_of(g.tensors[t]), 0);
      if (persists(g.tensors[t].role)) write(t, whole_of(g.tensors[t].shape), e.at_start[t]);
    }
  }

  void run(const step& s) {
    if (std::holds_alternative<compute>(s.command)) return run_compute(s);
    if (!s.is_needed) return;
    const bool gives_up = std::holds_alternative<discard>(s.command) && is_managed(s.home);
    if (std::holds_alternative<prefetch>(s.command)) clear(s.populate_or_discard);
    for (const pitched_copy& c : s.copies) copy(c);
    for (const managed_target& m : s.managed_targets) {
      const byte_count here = m.device_range.offset, there = m.pinned_offset, bytes = m.device_range.bytes;
      if (gives_up) set({space::managed, here}, bytes, garbage);
      if (s.home != residence::twinned || gives_up) continue;
      if (std::holds_alternative<prefetch>(s.command))
        copy({space::pinned, there}, {space::managed, here}, bytes);
      if (std::holds_alternative<evict>(s.command))
        copy({space::managed, here}, {space::pinned, there}, bytes);
    }
    if (std::holds_alternative<evict>(s.command)) clear(s.populate_or_discard);
  }

  // The latest value of a region lies dense at an address.
  ::testing::AssertionResult holds(tensor_id t, const region& r, address at) const {
    for (const range& run : runs_of(g_.tensors[t], r)) {
      bool right = true;
      const auto check = [&](byte_count begin, byte_count end, const provenance& p) {
        const byte_count first = begin + p.first, last = end + p.first;
        right = right && p.what == t && first == run.offset + (begin - at.offset);
        right = right && latest_[t].visit(first, last, [&](byte_count, byte_count, std::uint32_t written) {
          right = right && written == p.written;
        });
      };
      if (!in(at.where).visit(at.offset, at.offset + run.bytes, check) || !right) {
        return ::testing::AssertionFailure()
               << g_.tensors[t].name << " " << to_text(g_.tensors[t].shape, r) << " does not lie there";
      }
      at.offset += run.bytes;
    }
    return ::testing::AssertionSuccess();
  }

 private:
  void run_compute(const step& s) {
    for (const pitched_copy& c : s.gathers) copy(c);
    set({space::device, s.workspace_offset}, s.workspace_bytes, garbage);
    for (const operand& o : s.operands) {
      if (o.accessed.mode == access_mode::write) continue;
      EXPECT_TRUE(holds(o.accessed.tensor, o.accessed.where, o.location)) << to_text(g_, s.command);
    }
    for (const operand& o : s.operands) {
      if (o.accessed.mode != access_mode::read) write(o.accessed.tensor, o.accessed.where, o.location);
    }
    for (const pitched_copy& c : s.scatters) copy(c);
  }

  void write(tensor_id t, const region& r, address at) {
    ++writes_;
    for (const range& run : runs_of(g_.tensors[t], r)) {
      set(at, run.bytes, {t, run.offset - at.offset, writes_});
      latest_[t].set(run.offset, run.offset + run.bytes, writes_);
      at.offset += run.bytes;
    }
  }

  void copy(const pitched_copy& c) {
    for (byte_count z = 0; z < c.depth; ++z) {
      for (byte_count y = 0; y < c.height; ++y) {
        copy({c.from.where, c.from.offset + z * c.from_slice + y * c.from_pitch},
             {c.to.where, c.to.offset + z * c.to_slice + y * c.to_pitch}, c.width);
      }
    }
  }

  void copy(address from, address to, byte_count bytes) {
    struct piece_of {
      byte_count begin, end;
      provenance p;
    };
    std::vector<piece_of> found;
    in(from.where)
        .visit(from.offset, from.offset + bytes, [&](byte_count begin, byte_count end, provenance p) {
          p.first += from.offset - to.offset;
          found.push_back({begin - from.offset, end - from.offset, p});
        });
    set(to, bytes, garbage);
    for (const piece_of& f : found) set({to.where, to.offset + f.begin}, f.end - f.begin, f.p);
  }

  void set(address at, byte_count bytes, const provenance& p) {
    in(at.where).set(at.offset, at.offset + bytes, p);
  }
  void clear(const std::vector<range>& room) {
    for (const range& r : room) set({space::managed, r.offset}, r.bytes, garbage);
  }

  stretches<provenance>& in(space where) { return spaces_[static_cast<std::size_t>(where)]; }
  const stretches<provenance>& in(space where) const { return spaces_[static_cast<std::size_t>(where)]; }

  const graph& g_;
  std::array<stretches<provenance>, 3> spaces_;
  std::vector<stretches<std::uint32_t>> latest_;  // per tensor: the write of each byte
  std::uint32_t writes_ = 0;
};

// In list order every read finds what it is meant to find, and so does whoever looks at the end.
inline void expect_every_read_finds_its_tensor(const graph& g, const execution_plan& e) {
  memory_replay memory(g, e);
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (const step& s : e.steps) {
      memory.run(s);
      if (::testing::Test::HasFailure()) return;
    }
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      if (!survives(g.tensors[t].role)) continue;
      EXPECT_TRUE(memory.holds(t, whole_of(g.tensors[t].shape), e.at_end[t])) << "at the end";
    }
  }
}

}  // namespace um::testing
