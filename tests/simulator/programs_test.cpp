// Programs made at random, by what must hold for all of them. UM_PROGRAMS=100000 makes that many instead of
// 500.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "simulator/simulate.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

constexpr byte_count arena_bytes = 24 * managed_block;

// What is done to a managed arena, one after the other.
struct operation {
  enum class what : std::uint8_t { touch, prefetch_in, prefetch_out, discard, advise } kind = what::touch;
  range where;
  access_mode mode = access_mode::read;
  touch_pattern how;
  advice hint = advice::read_mostly;
};
struct program {
  std::uint64_t capacity = 0;
  std::vector<operation> all;
};

std::uint64_t programs() {
  const char* const asked = std::getenv("UM_PROGRAMS");
  return asked == nullptr ? 500 : std::strtoull(asked, nullptr, 10);
}

constexpr nanoseconds uvm_costs::* driver_costs[] = {
    &uvm_costs::interrupt_ns,         &uvm_costs::batch_ns,         &uvm_costs::fault_ns,
    &uvm_costs::service_ns,           &uvm_costs::chunk_ns,         &uvm_costs::first_visit_ns,
    &uvm_costs::granule_ns,           &uvm_costs::host_unmap_ns,    &uvm_costs::page_fault_ns,
    &uvm_costs::read_mostly_write_ns, &uvm_costs::migrate_copy_ns,  &uvm_costs::evict_ns,
    &uvm_costs::host_populate_ns,     &uvm_costs::host_map_page_ns, &uvm_costs::prefetch_call_ns,
    &uvm_costs::prefetch_block_ns,    &uvm_costs::populate_ns,      &uvm_costs::discard_block_ns};

// Costs of every kind, even, so that halves are whole.
machine any_machine(std::mt19937_64& random) {
  machine m = round_machine();
  const auto some = [&] { return static_cast<nanoseconds>(2 * (random() % 20'000)); };
  for (nanoseconds uvm_costs::* cost : driver_costs) {
    m.uvm.*cost = some();
  }
  m.uvm.batch_granules = std::array{1U, 4U, 24U, 32U, 256U}[random() % 5];
  return m;
}

range any_range(std::mt19937_64& random) {
  const byte_count most = random() % 2 == 0 ? 3 * granule_bytes : arena_bytes;
  const byte_count begin = random() % arena_bytes;
  return {begin, random() % std::min(arena_bytes - begin, most) + 1};
}

program any_program(std::mt19937_64& random) {
  program p{1 + random() % 30, {}};
  for (int i = 0; i < 12; ++i) {
    operation o;
    o.where = any_range(random);
    const std::uint64_t kind = random() % 12;
    o.kind = kind < 7    ? operation::what::touch
             : kind < 8  ? operation::what::prefetch_in
             : kind < 9  ? operation::what::prefetch_out
             : kind < 11 ? operation::what::discard
                         : operation::what::advise;
    o.mode = static_cast<access_mode>(random() % 3);
    o.hint = static_cast<advice>(random() % 4);
    o.how.sparse = random() % 3 == 0;
    o.how.shuffled = random() % 4 == 0;
    o.how.stride = random() % 4 == 0 ? 2 : 1;
    p.all.push_back(o);
  }
  return p;
}

managed_traffic apply(managed_memory& m, const operation& o) {
  switch (o.kind) {
    case operation::what::touch:
      return m.touch(o.where, o.mode, o.how);
    case operation::what::prefetch_in:
      return m.prefetch_to_device(o.where);
    case operation::what::prefetch_out:
      return m.prefetch_to_host(o.where);
    case operation::what::discard:
      return m.discard(o.where);
    case operation::what::advise:
      m.advise(o.where, o.hint);
  }
  return {};
}

using watcher = std::function<void(const managed_memory&, const operation&, const managed_traffic&)>;

managed_traffic run(const program& p, const machine& on, const watcher& watch = {}) {
  managed_memory m(arena_bytes, p.capacity, on);
  m.place_on_host({0, arena_bytes});
  managed_traffic all;
  for (const operation& o : p.all) {
    const managed_traffic done = apply(m, o);
    if (watch) watch(m, o, done);
    all += done;
  }
  return all;
}

void for_each_program(const std::function<void(const program&, const machine&)>& check) {
  for (std::uint64_t seed = 0; seed < programs(); ++seed) {
    std::mt19937_64 random(seed);
    const machine on = any_machine(random);
    const program p = any_program(random);
    check(p, on);
    if (testing::Test::HasFailure()) FAIL() << "program " << seed;
  }
}

TEST(programs, run_the_same_twice) {
  for_each_program([](const program& p, const machine& on) { EXPECT_EQ(run(p, on), run(p, on)); });
}

TEST(programs, keep_within_the_room_and_count_what_they_hold) {
  for_each_program([](const program& p, const machine& on) {
    run(p, on, [&](const managed_memory& m, const operation&, const managed_traffic& t) {
      std::uint64_t held = 0;
      for (std::uint64_t b = 0; b < m.block_count(); ++b) {
        const managed_block_state s = m.state(b);
        held += s.holds_chunk ? 1 : 0;
        EXPECT_TRUE(s.on_device == 0 || s.holds_chunk);
        EXPECT_EQ(s.remote & ~s.on_host, 0U) << "over the link lies what is on the host";
      }
      EXPECT_EQ(held, m.held_blocks());
      EXPECT_LE(m.held_blocks(), p.capacity);
      EXPECT_GE(t.time, 0);
    });
  });
}

// Nothing that a touch asked for is left out, where nothing leaves in the meantime.
TEST(programs, serve_all_that_is_touched) {
  for_each_program([](program p, const machine& on) {
    p.capacity = 30;
    run(p, on, [](const managed_memory& m, const operation& o, const managed_traffic&) {
      if (o.kind != operation::what::touch || o.how.stride > 1) return;
      for (const range& r : m.missing_ranges({o.where}, access_mode::read)) {
        for (std::uint64_t b = r.offset / managed_block; b <= (r.offset + r.bytes - 1) / managed_block; ++b) {
          EXPECT_NE(m.state(b).remote, 0U) << "what is not on the device is reached over the link";
        }
      }
    });
  });
}

TEST(programs, are_bound_by_the_link) {
  for_each_program([](const program& p, const machine& on) {
    run(p, on, [&](const managed_memory&, const operation&, const managed_traffic& t) {
      const byte_count in = t.fault_bytes + t.prefetched_in_bytes,
                       out = t.evicted_bytes + t.prefetched_out_bytes;
      EXPECT_GE(t.time, time_at(in, on.link_to_device_bytes_per_s));
      EXPECT_GE(t.time, time_at(out, on.link_to_host_bytes_per_s));
      EXPECT_GE(t.time, time_at(t.remote_bytes, on.uvm.remote_read_bytes_per_s));
    });
  });
}

TEST(programs, never_gain_by_a_cost_that_grows) {
  for_each_program([](const program& p, const machine& on) {
    const managed_traffic before = run(p, on);
    machine slow = on;
    slow.link_to_device_bytes_per_s /= 2;
    slow.link_to_host_bytes_per_s /= 2;
    slow.link_both_bytes_per_s /= 2;
    EXPECT_GE(run(p, slow).time, before.time);
    machine late = on;
    late.uvm.service_ns *= 2;
    late.uvm.evict_ns *= 2;
    late.uvm.batch_ns *= 2;
    late.uvm.read_mostly_write_ns *= 2;
    EXPECT_GE(run(p, late).time, before.time);
  });
}

// All rates twice as high and all times half as long: half the time.
TEST(programs, take_half_the_time_where_everything_is_twice_as_fast) {
  for_each_program([](const program& p, machine on) {
    const nanoseconds whole = run(p, on).time;
    for (std::uint64_t machine::* rate :
         {&machine::link_to_device_bytes_per_s, &machine::link_to_host_bytes_per_s,
          &machine::link_both_bytes_per_s, &machine::device_bytes_per_s}) {
      on.*rate *= 2;
    }
    on.uvm.remote_read_bytes_per_s *= 2;
    on.uvm.remote_write_bytes_per_s *= 2;
    for (nanoseconds uvm_costs::* cost : driver_costs) {
      on.uvm.*cost /= 2;
    }
    EXPECT_NEAR(static_cast<double>(run(p, on).time), static_cast<double>(whole) / 2,
                2e-3 * static_cast<double>(whole));
  });
}

TEST(programs, are_not_hurt_by_read_mostly_advice_on_data_that_is_only_read) {
  for_each_program([](program p, const machine& on) {
    for (operation& o : p.all) {
      if (o.kind != operation::what::touch) o.kind = operation::what::touch;
      o.mode = access_mode::read;
    }
    const nanoseconds without = run(p, on).time;
    operation advice_first;
    advice_first.kind = operation::what::advise;
    advice_first.where = {0, arena_bytes};
    p.all.insert(p.all.begin(), advice_first);
    EXPECT_LE(run(p, on).time, without);
  });
}

// --- whole plans ---

// Managed tensors that operators read and write by turns, some of them prefetched or evicted before.
hand_plan any_plan(std::mt19937_64& random) {
  hand_plan h;
  h.on = any_machine(random);
  h.on.multiprocessors = 1;
  std::vector<tensor_id> all;
  std::uint64_t at = 0;
  for (int i = 0; i < 5; ++i) {
    const auto size = static_cast<std::int64_t>(1 + random() % 6);
    all.push_back(h.add_tensor(size, residence::managed, managed_at(at), role::input));
    at += static_cast<std::uint64_t>(size);
  }
  for (int i = 0; i < 8; ++i) {
    const tensor_id x = all[random() % all.size()], y = all[random() % all.size()];
    std::vector<std::int32_t> waits;
    if (!h.plan.steps.empty()) waits.push_back(static_cast<std::int32_t>(h.plan.steps.size()) - 1);
    if (random() % 4 == 0) waits = {h.add_move(prefetch{x, {}}, x, waits)};
    if (random() % 4 == 0) waits = {h.add_move(evict{y, {}}, y, waits)};
    std::vector<operand> operands{h.whole(x, access_mode::read)};
    if (x != y) operands.push_back(h.whole(y, access_mode::write));
    h.add_compute(static_cast<nanoseconds>(random() % ms), operands, waits);
    op& o = h.network.ops.back();
    if (random() % 2 == 0) o.attributes = bias_backward{};
    o.in = {x};
    if (x != y) o.out = {y};
  }
  h.plan.evicted_by = evictor::driver;
  h.plan.budget = (2 + random() % (at + 2)) * managed_block;
  return h;
}

void for_each_plan(const std::function<void(hand_plan&)>& check) {
  for (std::uint64_t seed = 0; seed < programs(); ++seed) {
    std::mt19937_64 random(seed + 1'000'000);
    hand_plan h = any_plan(random);
    check(h);
    if (testing::Test::HasFailure()) FAIL() << "plan " << seed;
  }
}

TEST(programs, of_operators_hold_no_more_than_their_budget) {
  for_each_plan([](hand_plan& h) {
    for (const trace& t : h.simulate(3, true)) {
      for (const memory_sample& s : t.memory_samples) EXPECT_LE(s.bytes, h.plan.budget);
    }
  });
}

TEST(programs, of_operators_lie_within_their_band) {
  for_each_plan([](hand_plan& h) {
    h.on.uncertain_figures = {{"uvm.evict_ns", h.on.uvm.evict_ns / 2, 2 * h.on.uvm.evict_ns}};
    const std::vector<trace> known = simulate(h.run(), 4);
    const time_band band = band_of(h.run(), known);
    const nanoseconds middle =
        std::max(std::min(known[1].duration, known[2].duration),
                 std::min(std::max(known[1].duration, known[2].duration), known[3].duration));
    EXPECT_LE(band.low, middle);
    EXPECT_GE(band.high, middle);
  });
}

TEST(programs, of_operators_have_periods_that_come_again) {
  std::uint64_t found = 0;
  for_each_plan([&](hand_plan& h) {
    const simulation done = simulate_and_find_cycle(h.run(), 4, false, true);
    if (!done.cycle || done.cycle->period == 0) return;
    ++found;
    const std::uint32_t p = done.cycle->period;
    EXPECT_GE(p, 2U);
    const std::vector<trace> more = simulate(h.run(), 40);
    nanoseconds sum = 0;
    for (std::size_t i = 40 - p; i < 40; ++i) {
      EXPECT_EQ(more[i].duration, more[i - p].duration);
      sum += more[i].duration;
    }
    EXPECT_EQ(done.cycle->mean, sum / static_cast<nanoseconds>(p));
  });
  EXPECT_GT(found, 0U) << "or nothing was tested";
}

}  // namespace
}  // namespace um
