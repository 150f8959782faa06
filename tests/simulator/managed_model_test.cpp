// The managed memory against a second model of the same rules, written page by page and as plain as
// can be: every page of 4 KiB has its own state, lists are searched, trees are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>

#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

constexpr std::uint64_t pages_per_block = managed_block / page_bytes;

struct page {
  bool device = false, host = false, allocated = false, cpu = false, remote = false, dead = false;
};

// Traffic but for the time.
class page_model {
 public:
  page_model(std::uint64_t blocks_in_arena, std::uint64_t capacity, std::uint64_t batch)
      : pages(blocks_in_arena * pages_per_block),
        hints(blocks_in_arena),
        capacity_(capacity),
        batch_(batch) {}

  std::vector<page> pages;
  std::vector<std::set<advice>> hints;
  std::list<std::uint64_t> unused, gone, used;  // victims in this order, each from its front
  managed_traffic done;

  void kernel(range r, access_mode mode) {
    const bool write = mode != access_mode::read;
    page_list raised;  // one page of each granule that faults in the batch
    for (const std::uint64_t b : block_list(r)) {
      if (write && hints[b].contains(advice::read_mostly)) {
        if (!raised.empty()) service(raised, write);
        raised.clear();
        write_pages(r, b);
        continue;
      }
      while (raise(r, b, write, raised)) {
        if (raised.size() < batch_ && !stays(b)) break;
        service(raised, write);
        raised.clear();
      }
      over_the_link(r, b, mode);
    }
    if (!raised.empty()) service(raised, write);
  }

  void fetch(range r) {
    ++done.prefetch_calls;
    const auto blocks_of = block_list(r);
    for (int walk = 0; walk < (blocks_of.size() > 1 ? 2 : 1); ++walk) {
      for (const std::uint64_t b : blocks_of) {
        const auto want = granule_pages(r, b);
        for (const std::uint64_t p : want) pages[p].dead = false;
        bring(b, want, keeps(b, false), done.prefetched_in_bytes);
      }
    }
  }

  void expel(range r) {
    ++done.prefetch_calls;
    for (const std::uint64_t b : block_list(r)) {
      const auto want = granule_pages(r, b);
      bool any_here = false;
      for (const std::uint64_t p : want) {
        allocate(p);
        any_here = any_here || pages[p].device;
        if (pages[p].device && !pages[p].host && !pages[p].dead) done.prefetched_out_bytes += page_bytes;
        pages[p].host = true;
        pages[p].dead = false;
      }
      if (hints[b].contains(advice::read_mostly) && any_here) {
        forget(b);
        used.push_back(b);
      } else {
        for (const std::uint64_t p : want) pages[p].device = false;
        remap(b);
        settle(b);
      }
      for (const std::uint64_t p : want) pages[p].cpu = true;
    }
  }

  void drop(range r) {
    for (const std::uint64_t b : block_list(r)) {
      bool any = false;
      for (std::uint64_t g = 0; g < granules_per_block; ++g) {
        const byte_count begin = b * managed_block + g * granule_bytes;
        if (begin < r.offset || begin + granule_bytes > r.offset + r.bytes) continue;
        any = true;
        for (std::uint64_t i = 0; i < pages_per_granule; ++i) {
          page& x = pages[begin / page_bytes + i];
          x.device = x.host = x.cpu = x.remote = false;
          x.dead = true;
        }
      }
      if (!any) continue;
      settle(b);
      ++done.discarded_blocks;
    }
  }

  void advise(range r, advice hint) {
    for (const std::uint64_t b : block_list(r)) {
      hints[b].insert(hint);
      if (!stays(b)) {
        for (std::uint64_t i = 0; i < pages_per_block; ++i) pages[b * pages_per_block + i].remote = false;
      }
      remap(b);
    }
  }

  bool holds(std::uint64_t b) const {
    const auto in = [b](const std::list<std::uint64_t>& l) { return std::ranges::find(l, b) != l.end(); };
    return in(unused) || in(gone) || in(used);
  }

 private:
  using page_list = std::vector<std::uint64_t>;

  static std::vector<std::uint64_t> block_list(range r) {
    std::vector<std::uint64_t> all;
    if (r.bytes == 0) return all;
    for (std::uint64_t b = r.offset / managed_block; b <= (r.offset + r.bytes - 1) / managed_block; ++b)
      all.push_back(b);
    return all;
  }
  static page_list granule_pages(range r, std::uint64_t b) {
    page_list all;
    for (std::uint64_t p = b * pages_per_block; p < (b + 1) * pages_per_block; ++p) {
      const byte_count begin = p / pages_per_granule * granule_bytes;
      if (begin < r.offset + r.bytes && begin + granule_bytes > r.offset) all.push_back(p);
    }
    return all;
  }

  bool stays(std::uint64_t b) const {
    const std::set<advice>& h = hints[b];
    if (h.contains(advice::read_mostly) || h.contains(advice::preferred_device)) return false;
    return h.contains(advice::preferred_host) || h.contains(advice::accessed_by_device);
  }
  bool keeps(std::uint64_t b, bool write) const { return hints[b].contains(advice::read_mostly) && !write; }
  bool accessible(std::uint64_t p, bool write) const {
    const page& x = pages[p];
    return x.remote || (x.device && !(write && (x.host || x.dead)));
  }

  // Adds granules of the block that fault and are not in the batch yet; false if there are none.
  bool raise(range r, std::uint64_t b, bool write, page_list& raised) const {
    bool any = false;
    const page_list all = granule_pages(r, b);
    for (std::size_t i = 0; i < all.size() && raised.size() < batch_; i += pages_per_granule) {
      if (accessible(all[i], write) || std::ranges::find(raised, all[i]) != raised.end()) continue;
      raised.push_back(all[i]);
      any = true;
    }
    return any;
  }

  void over_the_link(range r, std::uint64_t b, access_mode mode) {
    for (const std::uint64_t p : granule_pages(r, b)) {
      const byte_count begin = std::max(r.offset, p * page_bytes),
                       end = std::min(r.offset + r.bytes, (p + 1) * page_bytes);
      if (pages[p].remote && begin < end)
        done.remote_bytes += (end - begin) * (mode == access_mode::accumulate ? 2 : 1);
    }
  }

  void service(const page_list& raised, bool write) {
    ++done.batches;
    done.faulted_granules += raised.size();
    for (std::size_t i = 0; i < raised.size();) {
      const std::uint64_t b = raised[i] / pages_per_block;
      page_list mine;
      for (; i < raised.size() && raised[i] / pages_per_block == b; ++i) mine.push_back(raised[i]);
      service_block(b, mine, write);
    }
  }

  void service_block(std::uint64_t b, const page_list& faulted, bool write) {
    ++done.services;
    page_list move, rewrite, stay;
    for (const std::uint64_t f : faulted) {
      for (std::uint64_t i = 0; i < pages_per_granule; ++i) {
        const std::uint64_t p = f / pages_per_granule * pages_per_granule + i;
        if (write && pages[p].dead) {
          rewrite.push_back(p);
        } else if (stays(b) &&
                   (hints[b].contains(advice::preferred_host) ? !pages[p].device : pages[p].host)) {
          stay.push_back(p);
        } else {
          move.push_back(p);
        }
      }
    }
    if (!rewrite.empty()) {
      byte_count none_moves = 0;
      bring(b, rewrite, false, none_moves);
      EXPECT_EQ(none_moves, 0U);
      forget(b);
      gone.push_back(b);
      for (const std::uint64_t p : rewrite) pages[p].dead = false;
    }
    if (!stay.empty()) map_in_place(b, stay);
    if (move.empty()) return;
    const bool nowhere = none_of_block(b, [](const page& x) { return x.device || x.host; });
    page_list want;
    const std::vector<bool> tree = in_trees(b, move);
    for (std::uint64_t i = 0; i < pages_per_block; ++i) {
      const std::uint64_t p = b * pages_per_block + i;
      const bool asked = std::ranges::find(move, p) != move.end();
      const bool whole = nowhere && hints[b].contains(advice::preferred_device);
      if (asked || ((whole || tree[i]) && !pages[p].dead)) want.push_back(p);
    }
    bring(b, want, keeps(b, write), done.fault_bytes);
  }

  bool none_of_block(std::uint64_t b, auto&& f) const {
    return std::none_of(pages.begin() + static_cast<std::ptrdiff_t>(b * pages_per_block),
                        pages.begin() + static_cast<std::ptrdiff_t>((b + 1) * pages_per_block), f);
  }

  // The pages of the block that lie in a tree of 2, 4, ... 512 pages around a page that moves, more
  // than 51 % of which is on the device or moves.
  std::vector<bool> in_trees(std::uint64_t b, const page_list& move) const {
    std::vector<bool> all(pages_per_block), moves(pages_per_block);
    for (const std::uint64_t p : move) moves[p - b * pages_per_block] = true;
    for (std::uint64_t size = 2; size <= pages_per_block; size *= 2) {
      for (std::uint64_t begin = 0; begin < pages_per_block; begin += size) {
        std::uint64_t occupied = 0, moving = 0;
        for (std::uint64_t i = begin; i < begin + size; ++i) {
          if (moves[i]) ++moving;
          if (moves[i] || pages[b * pages_per_block + i].device) ++occupied;
        }
        if (moving == 0 || occupied * 100 <= size * 51) continue;
        for (std::uint64_t i = begin; i < begin + size; ++i) all[i] = true;
      }
    }
    return all;
  }

  // Read-mostly data faults at every page that is written, each time.
  void write_pages(range r, std::uint64_t b) {
    const page_list all = granule_pages(r, b);
    ++done.batches;
    ++done.services;
    done.faulted_granules += all.size() / pages_per_granule;
    for (const std::uint64_t p : all) pages[p].dead = false;
    bring(b, all, false, done.fault_bytes);
  }

  void map_in_place(std::uint64_t b, const page_list& asked) {
    const bool nowhere = none_of_block(b, [](const page& x) { return x.device || x.host; });
    for (std::uint64_t i = 0; i < pages_per_block; ++i) {
      const std::uint64_t p = b * pages_per_block + i;
      const bool wanted = std::ranges::find(asked, p) != asked.end();
      page& x = pages[p];
      if ((nowhere || wanted) && !x.host) {
        allocate(p);
        x.host = true;
        x.dead = false;
      }
    }
    remap(b);
  }

  void bring(std::uint64_t b, const page_list& want, bool keep, byte_count& cause) {
    hold(b);
    for (const std::uint64_t p : want) {
      page& x = pages[p];
      if (!x.device && x.host) cause += page_bytes;
      if (!x.device && !x.host) done.populated_bytes += page_bytes;
      x.device = true;
      x.remote = false;
      if (!keep) x.host = x.cpu = false;
    }
    forget(b);
    (none_of_block(b, [](const page& x) { return !x.dead; }) ? gone : used).push_back(b);
  }

  void hold(std::uint64_t b) {
    if (holds(b)) return;
    if (unused.size() + gone.size() + used.size() == capacity_) {
      std::list<std::uint64_t>& from = !unused.empty() ? unused : !gone.empty() ? gone : used;
      const std::uint64_t victim = from.front();
      from.pop_front();
      bool any = false;
      for (std::uint64_t i = 0; i < pages_per_block; ++i) {
        const std::uint64_t p = victim * pages_per_block + i;
        page& x = pages[p];
        if (!x.device) continue;
        any = true;
        if (!x.host) allocate(p);
        if (!x.dead && !x.host) {
          done.evicted_bytes += page_bytes;
          x.host = true;
        }
        x.device = false;
      }
      if (any) ++done.evicted_blocks;
      remap(victim);
    }
    used.push_back(b);
  }

  void allocate(std::uint64_t p) {
    if (pages[p].allocated) return;
    const std::uint64_t block = p / pages_per_block;
    const bool first = none_of_block(block, [](const page& x) { return x.allocated; });
    const std::uint64_t begin = first ? block * pages_per_block : p;
    const std::uint64_t end = first ? begin + pages_per_block : p + 1;
    for (std::uint64_t i = begin; i < end; ++i) pages[i].allocated = true;
    done.host_populated_bytes += (end - begin) * page_bytes;
  }
  void remap(std::uint64_t b) {
    if (!stays(b)) return;
    for (std::uint64_t i = 0; i < pages_per_block; ++i) {
      page& x = pages[b * pages_per_block + i];
      x.remote = x.host;
    }
  }
  void settle(std::uint64_t b) {
    if (!holds(b) || !none_of_block(b, [](const page& x) { return x.device; })) return;
    forget(b);
    unused.push_back(b);
  }
  void forget(std::uint64_t b) {
    for (auto* l : {&unused, &gone, &used}) l->remove(b);
  }

  std::uint64_t capacity_, batch_;
};

class both_models {
 public:
  both_models(std::uint64_t blocks_in_arena, std::uint64_t capacity, std::uint64_t batch)
      : count_(blocks_in_arena),
        fast_(blocks_in_arena * managed_block, capacity, with_batches_of(batch)),
        plain_(blocks_in_arena, capacity, batch) {
    const range half{0, blocks_in_arena * managed_block / 2};
    fast_.place_on_host(half);
    for (std::uint64_t p = 0; p < half.bytes / page_bytes; ++p) {
      plain_.pages[p].host = plain_.pages[p].cpu = true;
    }
    for (std::uint64_t p = 0; p < round_up(half.bytes, managed_block) / page_bytes; ++p) {
      plain_.pages[p].allocated = true;
    }
  }

  void step(std::mt19937_64& random) {
    const byte_count arena = count_ * managed_block;
    const byte_count most = random() % 2 == 0 ? 3 * granule_bytes : 3 * managed_block;
    const std::uint64_t begin = random() % arena;
    const range r{begin, random() % std::min(arena - begin, most) + 1};
    const std::uint64_t kind = random() % 22;
    if (kind < 12) {
      touch(r, static_cast<access_mode>(random() % 3));
    } else if (kind < 14) {
      compare(fast_.prefetch_to_device(r), [&] { plain_.fetch(r); });
    } else if (kind < 17) {
      compare(fast_.prefetch_to_host(r), [&] { plain_.expel(r); });
    } else if (kind < 20) {
      compare(fast_.discard(r), [&] { plain_.drop(r); });
    } else if (random() % 2 == 0) {
      const auto hint = static_cast<advice>(random() % 4);
      fast_.advise(r, hint);
      plain_.advise(r, hint);
    }
  }

  void expect_same_state() const {
    for (std::uint64_t b = 0; b < count_; ++b) {
      const managed_block_state s = fast_.state(b);
      ASSERT_EQ(s.holds_chunk, plain_.holds(b)) << "block " << b;
      for (std::uint64_t i = 0; i < pages_per_block; ++i) {
        const page& x = plain_.pages[b * pages_per_block + i];
        const auto has = [&](granule_set all) { return (all >> (i / pages_per_granule) & 1U) != 0; };
        ASSERT_EQ(has(s.on_device), x.device) << "block " << b << " page " << i;
        ASSERT_EQ(has(s.on_host), x.host) << "block " << b << " page " << i;
        ASSERT_EQ(has(s.discarded), x.dead) << "block " << b << " page " << i;
        ASSERT_EQ(has(s.mapped_by_host), x.cpu) << "block " << b << " page " << i;
        ASSERT_EQ(has(s.remote), x.remote) << "block " << b << " page " << i;
      }
    }
    ASSERT_LE(fast_.held_blocks(), fast_.capacity());
  }

 private:
  static machine with_batches_of(std::uint64_t n) {
    machine m = round_machine();
    m.uvm.batch_granules = n;
    return m;
  }

  void touch(range r, access_mode mode) {
    compare(fast_.touch(r, mode), [&] { plain_.kernel(r, mode); });
  }
  void compare(managed_traffic actual, auto&& plainly) {
    plain_.done = {};
    plainly();
    actual.time = 0;
    EXPECT_EQ(actual.batches, plain_.done.batches);
    EXPECT_EQ(actual.faulted_granules, plain_.done.faulted_granules);
    EXPECT_EQ(actual.services, plain_.done.services);
    EXPECT_EQ(actual.fault_bytes, plain_.done.fault_bytes);
    EXPECT_EQ(actual.evicted_bytes, plain_.done.evicted_bytes);
    EXPECT_EQ(actual.remote_bytes, plain_.done.remote_bytes);
    EXPECT_TRUE(actual == plain_.done);
  }

  std::uint64_t count_;
  managed_memory fast_;
  page_model plain_;
};

TEST(managed_model, random_operations_agree_with_a_model_of_single_pages) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t blocks_in_arena = 1 + random() % 8;
    const std::uint64_t capacity = 1 + random() % (blocks_in_arena + 1);
    const std::uint64_t batch = std::array{1U, 2U, 3U, 8U, 17U, 32U, 100U}[random() % 7];
    both_models models(blocks_in_arena, capacity, batch);
    for (int i = 0; i < 60; ++i) {
      models.step(random);
      models.expect_same_state();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
  }
}

}  // namespace
}  // namespace um
