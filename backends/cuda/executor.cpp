#include "backends/cuda/executor.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/ballast.hpp"
#include "backends/cuda/operators.hpp"
#include "core/compute.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {
namespace {

constexpr std::size_t index_of(lane l) {
  return static_cast<std::size_t>(l);
}

// The call blocks, or has to come after what it waits for as the CPU sees it.
bool waits_on_host(const step& s) {
  if (std::holds_alternative<evict>(s.what)) return s.home == residence::managed;
  return std::holds_alternative<prefetch>(s.what) && !s.room.empty();
}

bool discards(const step& s) {
  return s.needed && s.where == lane::to_host &&
         (!s.room.empty() || (std::holds_alternative<discard>(s.what) && is_managed(s.home)));
}

}  // namespace

executor::executor(session& on, const graph& g, const execution_plan& plan)
    : on_(on),
      g_(g),
      plan_(plan),
      to_device_(make_stream(stream_priority::highest)),
      to_host_(make_stream(stream_priority::highest)),
      room_(make_stream()),
      filling_(make_stream()) {
  keeps_room_ = std::ranges::any_of(plan.steps, discards);
  if (plan.managed_arena_bytes > 0) require_demand_paging(on.device());
  lanes_[index_of(lane::compute)].stream = on.compute().stream;
  lanes_[index_of(lane::to_device)].stream = to_device_.get();
  lanes_[index_of(lane::to_host)].stream = to_host_.get();
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    lanes_[index_of(plan.steps[i].where)].steps.push_back(i);
  }
  choose_engines();
  allocate();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const step& s = plan.steps[i];
    if (std::holds_alternative<compute>(s.what)) work_[i].call = bound_call(s, engines_[i]);
  }
}

// Before the arenas exist: candidates that are not in the engine cache need memory to be timed.
void executor::choose_engines() {
  engines_.resize(plan_.steps.size());
  work_.resize(plan_.steps.size());
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const step& s = plan_.steps[i];
    const auto* const c = std::get_if<compute>(&s.what);
    if (c == nullptr) continue;
    const op o = operator_of(g_, *c);
    engines_[i] = choose_engine(on_, g_, o, c->part, alignment_of(s), s.workspace_bytes);
    if (engines_[i].choice.workspace_bytes > s.workspace_bytes) {
      throw std::invalid_argument("operator " + o.name + " needs " +
                                  to_text(engines_[i].choice.workspace_bytes) +
                                  " of workspace on this device, the plan gives it " +
                                  to_text(s.workspace_bytes) + ": make the plan with this device's profile");
    }
  }
  on_.release_scratch();
}

void executor::allocate() {
  const byte_count excess = left_to_driver(plan_);
  const bool native = on_.options().allow_native_oversubscription;
  if (excess > 0 && !native) {
    throw unsupported("the plan leaves " + to_text(excess) +
                      " beyond the budget to the driver's own eviction, which can hang a GPU: allow native "
                      "oversubscription by name, or let the plan evict (mode capped)");
  }
  device_ = device_arena(plan_.device_arena_bytes);
  pinned_ = pinned_arena(plan_.pinned_arena_bytes);
  if (native) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    ballast_ = device_arena(ballast_bytes(plan_, free));
  }
  const bool by_name = ballast_.bytes() > 0;
  managed_ = managed_arena(plan_.managed_arena_bytes, by_name ? managed_limit::none : managed_limit::guarded);
}

void executor::make_events(bool timeline) {
  start_ = make_event(event_use::timing);
  fork_ = make_event(event_use::ordering);
  for (const step& s : plan_.steps) {
    for (const std::int32_t other : s.after) {
      if (other == no_step) continue;
      event& done = work_[static_cast<std::size_t>(other)].done;
      if (!done) done = make_event(event_use::ordering);
    }
  }
  for (const std::uint32_t i : lanes_[index_of(lane::to_host)].steps) {
    if (keeps_room_) work_[i].copied = make_event(event_use::ordering);
  }
  if (!timeline) return;
  for (step_work& w : work_) {
    w.begin = make_event(event_use::timing);
    w.end = make_event(event_use::timing);
  }
}

// Kernels of our own are not chosen: they have no time.
std::vector<slice_cost> executor::slices() const {
  std::vector<slice_cost> all;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const auto* const c = std::get_if<compute>(&plan_.steps[i].what);
    if (c == nullptr || is_whole(c->part) || engines_[i].choice.time == 0) continue;
    const engine_choice& chosen = engines_[i].choice;
    all.push_back({*c, {chosen.time, chosen.workspace_bytes, chosen.engine, chosen.parts}});
  }
  return all;
}

execution executor::run(const execution_request& how) {
  poisons_ = how.poison;
  make_events(how.timeline);
  if (poisons_) poison_arenas();
  set_initial_state();
  execution result;
  result.slices = slices();
  result.launched = launch_way::streams;
  const bool in_stretches = !plan_.steps.empty() && std::ranges::all_of(plan_.steps, [](const step& s) {
    return s.launch == launching::by_stretch;
  });
  const bool may_record = (!in_stretches || !how.timeline) && how.iterations > 1;
  const std::uint32_t issued = may_record ? 1 : how.iterations;
  if (how.watch) how.watch(0);
  issue_iterations(0, issued, how.timeline, how.watch, result.iterations);
  if (issued < how.iterations) {
    if (in_stretches && record_stretches()) {
      result.launched = way_of_stretches();
      launch_iterations(how.iterations - issued, result.iterations);
      if (how.watch) how.watch(how.iterations);
    } else {
      if (!in_stretches && record_operators()) result.launched = launch_way::operator_graphs;
      issue_iterations(issued, how.iterations, how.timeline, how.watch, result.iterations);
    }
  }
  if (how.digest) result.digest = digest_of_results();
  result.loss = loss();
  if (!how.values.empty()) write_values(how.values);
  if (how.watch && how.linger > 0 && how.iterations > 0) linger(how, result.iterations.back().duration);
  return result;
}

// False if some operator cannot be recorded; it stays as it was.
bool executor::record_operators() {
  bool all = true;
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if (plan_.steps[i].launch != launching::as_operator) continue;
    step_work& work = work_[i];
    const cudaStream_t on = on_.compute().stream;
    work.recorded = record(on, work.call);
    if (work.recorded) work.call = [on, one = work.recorded.get()] { check(cudaGraphLaunch(one, on)); };
    all = all && work.recorded;
  }
  return all;
}

// As the iterations before, which took `each`; what they did is forgotten.
void executor::linger(const execution_request& how, nanoseconds each) {
  constexpr nanoseconds most = 1000;
  const auto count = static_cast<std::uint32_t>(
      std::clamp<nanoseconds>(how.linger / std::max<nanoseconds>(each, 1), 1, most));
  std::vector<trace> forgotten;
  how.watch(how.iterations);
  if (!recorded_.empty()) {
    launch_iterations(count, forgotten);
  } else {
    issue_iterations(how.iterations, how.iterations + count, false, {}, forgotten);
  }
  how.watch(how.iterations + count);
}

// Helpers pass the gate together with the caller, before and after every iteration, and once more
// to be told to stop. Nothing between the gates throws: failures are kept and thrown at the end.
void executor::issue_iterations(std::uint32_t first, std::uint32_t end, bool timeline, const watcher& watch,
                                std::vector<trace>& traces) {
  std::vector<lane> helped;  // lanes with a thread of their own
  for (const lane l : {lane::to_device, lane::to_host}) {
    if (!lanes_[index_of(l)].steps.empty()) helped.push_back(l);
  }
  std::barrier<> gate(static_cast<std::ptrdiff_t>(helped.size()) + (keeps_room_ ? 2 : 1));
  std::uint32_t iteration = first;
  bool stop = false;
  std::vector<std::jthread> helpers;
  for (const lane l : helped) {
    helpers.emplace_back([&, l] {
      for (gate.arrive_and_wait(); !stop; gate.arrive_and_wait()) {
        run_lane(l, iteration, timeline);
        gate.arrive_and_wait();
      }
    });
  }
  if (keeps_room_) {
    helpers.emplace_back([&] {
      for (gate.arrive_and_wait(); !stop; gate.arrive_and_wait()) {
        run_keeper();
        gate.arrive_and_wait();
      }
    });
  }
  for (; iteration < end && !failed_; ++iteration) {
    for (lane_work& l : lanes_) l.issued = l.handed = no_step;
    const auto began = std::chrono::steady_clock::now();
    gate.arrive_and_wait();
    run_lane(lane::compute, iteration, timeline);
    gate.arrive_and_wait();
    const auto ended = std::chrono::steady_clock::now();
    if (!failed_) keep_trace(traces, ended - began, timeline, watch, iteration + 1);
  }
  stop = true;
  gate.arrive_and_wait();
  helpers.clear();
  for (const lane_work& l : lanes_) {
    if (l.failure) std::rethrow_exception(l.failure);
  }
  if (keeper_failure_) std::rethrow_exception(keeper_failure_);
}

void executor::keep_trace(std::vector<trace>& traces, std::chrono::nanoseconds duration, bool timeline,
                          const watcher& watch, std::uint32_t done) {
  try {
    traces.push_back(trace_of(duration, take_moved(), timeline));
    if (watch) watch(done);
  } catch (...) {
    lanes_[index_of(lane::compute)].failure = std::current_exception();
    failed_ = true;
  }
}

void executor::run_lane(lane which, std::uint32_t iteration, bool timeline) {
  lane_work& mine = lanes_[index_of(which)];
  try {
    check(cudaSetDevice(on_.device()));
    mine.calling = true;
    if (timeline && which == lane::compute) check(cudaEventRecord(start_.get(), mine.stream));
    for (const std::uint32_t i : mine.steps) {
      const step& s = plan_.steps[i];
      step_work& work = work_[i];
      if (!wait_for_others(s, which)) break;
      if (timeline) check(cudaEventRecord(work.begin.get(), mine.stream));
      issue(s, work, mine.stream, iteration);
      if (timeline) check(cudaEventRecord(work.end.get(), mine.stream));
      finish_step(which, i);
    }
    mine.calling = false;
    check(cudaStreamSynchronize(mine.stream));
  } catch (...) {
    mine.failure = std::current_exception();
    failed_ = true;
  }
  mine.calling = false;
  if (failed_) let_go(which);
}

void executor::finish_step(lane which, std::uint32_t index) {
  lane_work& mine = lanes_[index_of(which)];
  const step_work& work = work_[index];
  const bool hands_over = keeps_room_ && which == lane::to_host;
  if (!hands_over && !work.done) return;
  check(cudaEventRecord(hands_over ? work.copied.get() : work.done.get(), mine.stream));
  std::atomic<std::int32_t>& last = hands_over ? mine.handed : mine.issued;
  last.store(static_cast<std::int32_t>(index), std::memory_order_release);
  last.notify_all();
}

// After a failure nobody is to wait for this lane.
void executor::let_go(lane which) {
  lane_work& mine = lanes_[index_of(which)];
  for (std::atomic<std::int32_t>* last : {&mine.issued, &mine.handed}) {
    last->store(std::numeric_limits<std::int32_t>::max());
    last->notify_all();
  }
}

// False if another lane failed and the iteration is to be given up.
bool executor::wait_for_others(const step& s, lane which) {
  lane_work& mine = lanes_[index_of(which)];
  for (std::size_t other = 0; other < lane_count; ++other) {
    const std::int32_t awaited = s.after[other];
    if (awaited == no_step || other == index_of(which)) continue;
    wait_until_issued(mine, static_cast<lane>(other), awaited);
    if (failed_) return false;
    const cudaEvent_t done = work_[static_cast<std::size_t>(awaited)].done.get();
    if (waits_on_host(s)) {
      mine.calling = false;
      check(cudaEventSynchronize(done));
      mine.calling = true;
    } else {
      check(cudaStreamWaitEvent(mine.stream, done));
    }
  }
  return true;
}

void executor::wait_until_issued(lane_work& mine, lane other, std::int32_t index) {
  std::atomic<std::int32_t>& issued = lanes_[index_of(other)].issued;
  std::int32_t now = issued.load(std::memory_order_acquire);
  if (now >= index) return;
  if (other == lane::to_host) mine.awaited = index;
  mine.calling = false;
  for (; now < index; now = issued.load(std::memory_order_acquire)) {
    issued.wait(now, std::memory_order_acquire);
  }
  mine.calling = true;
  mine.awaited = no_step;
}

void executor::issue(const step& s, step_work& work, cudaStream_t on, std::uint32_t iteration) {
  if (work.call) return work.call();
  if (!s.needed) return;
  moved_bytes& moved = lanes_[index_of(s.where)].moved;
  if (s.home == residence::twinned && !std::holds_alternative<advise>(s.what)) return move_twin(s, on, moved);
  for (const pitched_copy& c : s.copies) {
    copy(c, on);
    (s.where == lane::to_device ? moved.to_device : moved.to_host) += bytes_of(c);
  }
  for (const movement& m : s.moves) {
    if (!is_managed(s.home)) break;
    const managed_range there{managed_.data() + m.device.offset, m.device.bytes};
    std::visit(overloaded{[&](const prefetch&) {
                            prefetch_to_device(there, on_.device(), on);
                            moved.prefetched += there.bytes;
                          },
                          [&](const evict&) { evict_in_calls(there, s, on, moved); },
                          [](const discard&) {},  // by the keeper of room
                          [&](const advise& a) {  // in force for the whole run: said once
                            if (iteration == 0) advise_range(there, a.hint, on_.device());
                          },
                          [](const compute&) {}},
               s.what);
  }
  if (poisons_) poison(s, on);
}

void executor::copy(const pitched_copy& c, cudaStream_t on) const {
  const auto how = c.by == copier::kernel ? kernels::copy_box_by_kernel : kernels::copy_box_by_engine;
  how(on, base_of(c.to.where) + c.to.offset, base_of(c.from.where) + c.from.offset,
      {c.width, c.height, c.depth, c.from_pitch, c.from_slice, c.to_pitch, c.to_slice});
}

// An engine's call, with what is gathered for it and scattered behind it: by kernels, which reach managed and
// pinned memory as the engine does.
kernel_call executor::bound_call(const step& s, const engine& chosen) const {
  bound_operands operands{{}, device_.data() + s.workspace_offset};
  for (const operand& o : s.operands) operands.data.push_back(base_of(o.at.where) + o.at.offset);
  kernel_call call = chosen.bind(operands);
  if (s.gathers.empty() && s.scatters.empty()) return call;
  return [this, &s, call = std::move(call), on = on_.compute().stream] {
    for (const pitched_copy& c : s.gathers) copy(c, on);
    call();
    for (const pitched_copy& c : s.scatters) copy(c, on);
  };
}

std::byte* executor::base_of(space where) const {
  switch (where) {
    case space::device:
      return device_.data();
    case space::managed:
      return managed_.data();
    case space::pinned:
      return pinned_.data();
  }
  return nullptr;
}

// The largest of 16, 4, 2 and 1 bytes that every operand's address is a multiple of.
std::uint32_t executor::alignment_of(const step& s) const {
  byte_count all = 16;
  for (const operand& o : s.operands) all |= o.at.offset;
  for (const std::uint32_t multiple : {16U, 4U, 2U}) {
    if (all % multiple == 0) return multiple;
  }
  return 1;
}

}  // namespace um
