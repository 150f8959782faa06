// The managed memory against a second model of the same rules, kept as slow and as plain as can
// be: lists that are searched, states that are sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include "simulator/managed_memory.hpp"

namespace um {
namespace {

class plain_model {
 public:
  explicit plain_model(std::uint64_t capacity) : capacity_(capacity) {}

  std::set<std::uint64_t> device, host, discarded, visited;
  std::map<std::uint64_t, std::set<advice>> hints;
  std::list<std::uint64_t> unused, gone, used;  // victims in this order, each from its front

  managed_traffic kernel(std::uint64_t b, access_mode mode, byte_count touched) {
    managed_traffic t;
    const bool write = mode != access_mode::read;
    const bool here = device.contains(b);
    const bool duplicate = here && host.contains(b);
    if (here && !write) return t;
    if (here && !duplicate && !discarded.contains(b)) return t;
    if (!here && remote(b)) {
      host.insert(b);
      discarded.erase(b);
      t.zero_copy_bytes = touched * (mode == access_mode::accumulate ? 2 : 1);
      return t;
    }
    hold(b, t);
    t.faulted_blocks = 1;
    if (write && discarded.contains(b)) {
      t.rewritten_bytes = managed_block;
    } else if (here) {
      t.upgraded_blocks = 1;
    } else if (!host.contains(b)) {
      t.populated_bytes = managed_block;
    } else if (visited.contains(b)) {
      t.fault_bytes = managed_block;
    } else {
      t.first_fault_bytes = managed_block;
    }
    forget(b);
    (discarded.contains(b) ? gone : used).push_back(b);
    device.insert(b);
    visited.insert(b);
    if (write) discarded.erase(b);
    if (write || !hints[b].contains(advice::read_mostly)) host.erase(b);
    return t;
  }

  managed_traffic fetch(std::uint64_t b) {
    managed_traffic t;
    hold(b, t);
    if (!device.contains(b)) (host.contains(b) ? t.prefetched_in_bytes : t.zeroed_bytes) = managed_block;
    forget(b);
    used.push_back(b);
    device.insert(b);
    visited.insert(b);
    discarded.erase(b);
    if (!hints[b].contains(advice::read_mostly)) host.erase(b);
    return t;
  }

  managed_traffic expel(std::uint64_t b) {
    managed_traffic t;
    const bool value = device.contains(b) && !discarded.contains(b);
    if (!host.contains(b)) (value ? t.prefetched_out_bytes : t.host_zeroed_bytes) = managed_block;
    host.insert(b);
    discarded.erase(b);
    const bool held = holds(b);
    if (hints[b].contains(advice::read_mostly) && device.contains(b)) {
      forget(b);
      used.push_back(b);
      return t;
    }
    device.erase(b);
    if (held) {
      forget(b);
      unused.push_back(b);
    }
    return t;
  }

  void drop(std::uint64_t b) {
    device.erase(b);
    host.erase(b);
    discarded.insert(b);
    if (!holds(b)) return;
    forget(b);
    unused.push_back(b);
  }

  bool holds(std::uint64_t b) const {
    const auto in = [b](const std::list<std::uint64_t>& l) { return std::ranges::find(l, b) != l.end(); };
    return in(unused) || in(gone) || in(used);
  }

 private:
  bool remote(std::uint64_t b) {
    const std::set<advice>& h = hints[b];
    if (h.contains(advice::read_mostly) || h.contains(advice::preferred_device)) return false;
    return h.contains(advice::preferred_host) || (h.contains(advice::accessed_by_device) && host.contains(b));
  }

  void forget(std::uint64_t b) {
    for (auto* l : {&unused, &gone, &used}) l->remove(b);
  }

  void hold(std::uint64_t b, managed_traffic& t) {
    if (holds(b)) return;
    if (unused.size() + gone.size() + used.size() < capacity_) {
      used.push_back(b);
      return;
    }
    std::list<std::uint64_t>& from = !unused.empty() ? unused : !gone.empty() ? gone : used;
    const std::uint64_t victim = from.front();
    from.pop_front();
    if (device.erase(victim) > 0) {
      ++t.evicted_blocks;
      if (!discarded.contains(victim) && host.insert(victim).second) t.evicted_bytes += managed_block;
    }
    used.push_back(b);
  }

  std::uint64_t capacity_;
};

class both_models {
 public:
  both_models(std::uint64_t blocks, std::uint64_t capacity)
      : count_(blocks), fast_(blocks * managed_block, capacity), plain_(capacity) {
    fast_.place_on_host({0, blocks / 2 * managed_block});
    for (std::uint64_t b = 0; b < blocks / 2; ++b) plain_.host.insert(b);
  }

  void step(std::mt19937_64& random) {
    const std::uint64_t begin = random() % (count_ * managed_block);
    const range r{begin, random() % std::min(count_ * managed_block - begin, 7 * managed_block) + 1};
    const std::uint64_t kind = random() % 20;
    if (kind < 10) {
      touch(r, static_cast<access_mode>(random() % 3));
    } else if (kind < 13) {
      fetch(r);
    } else if (kind < 16) {
      expel(r);
    } else if (kind < 18) {
      drop(r);
    } else if (random() % 8 == 0) {
      advise(r, static_cast<advice>(random() % 4));
    }
  }

  void expect_same_state() const {
    for (std::uint64_t b = 0; b < count_; ++b) {
      const managed_block_state s = fast_.state(b);
      ASSERT_EQ(s.on_device, plain_.device.contains(b)) << "block " << b;
      ASSERT_EQ(s.on_host, plain_.host.contains(b)) << "block " << b;
      ASSERT_EQ(s.discarded, plain_.discarded.contains(b)) << "block " << b;
      ASSERT_EQ(s.holds_chunk, plain_.holds(b)) << "block " << b;
    }
    ASSERT_LE(fast_.held_blocks(), fast_.capacity());
  }

 private:
  static std::uint64_t first(range r) { return r.offset / managed_block; }
  static std::uint64_t last(range r) { return (r.offset + r.bytes - 1) / managed_block; }

  void touch(range r, access_mode mode) {
    managed_traffic expected;
    for (std::uint64_t b = first(r); b <= last(r); ++b) {
      const byte_count from = std::max(r.offset, b * managed_block);
      expected += plain_.kernel(b, mode, std::min(r.offset + r.bytes, (b + 1) * managed_block) - from);
    }
    EXPECT_EQ(fast_.touch(r, mode), expected);
  }
  void fetch(range r) {
    managed_traffic expected;
    expected.prefetch_calls = 1;
    for (int walk = 0; walk < (first(r) == last(r) ? 1 : 2); ++walk) {
      for (std::uint64_t b = first(r); b <= last(r); ++b) expected += plain_.fetch(b);
    }
    EXPECT_EQ(fast_.prefetch_to_device(r), expected);
  }
  void expel(range r) {
    managed_traffic expected;
    expected.prefetch_calls = 1;
    for (std::uint64_t b = first(r); b <= last(r); ++b) expected += plain_.expel(b);
    EXPECT_EQ(fast_.prefetch_to_host(r), expected);
  }
  void drop(range r) {
    managed_traffic expected;
    for (std::uint64_t b = first(r); b <= last(r); ++b) {
      if (b * managed_block < r.offset || (b + 1) * managed_block > r.offset + r.bytes) continue;
      plain_.drop(b);
      ++expected.discarded_blocks;
    }
    EXPECT_EQ(fast_.discard(r), expected);
  }
  void advise(range r, advice hint) {
    for (std::uint64_t b = first(r); b <= last(r); ++b) plain_.hints[b].insert(hint);
    fast_.advise(r, hint);
  }

  std::uint64_t count_;
  managed_memory fast_;
  plain_model plain_;
};

TEST(managed_model, random_operations_agree_with_the_plain_model) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t blocks = 1 + random() % 24;
    both_models models(blocks, 1 + random() % (blocks + 2));
    for (int i = 0; i < 300; ++i) {
      models.step(random);
      models.expect_same_state();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
  }
}

}  // namespace
}  // namespace um
