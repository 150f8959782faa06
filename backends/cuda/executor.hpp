// Runs execution plans on a GPU: three arenas, one stream and one issuing thread per lane.
//
// Each lane's steps are issued in list order by a thread of the lane's own (the calling thread is
// the compute lane's), because some calls block their caller: a managed eviction is a prefetch to
// the CPU, which returns when the copy has ended. A step that waits for a step of another lane
//   1. waits on the host until that step has been issued and its event recorded (a stream does not
//      wait for an event that was never recorded), then
//   2. makes its stream wait for the event, or, if it is itself a blocking one, waits on the host.
// Steps wait only for steps before them in the list, so the lanes cannot wait for each other in a
// circle. All lanes are idle between iterations.
//
// A plan is issued like that once; then its operators are recorded as its steps say, one by one or in
// stretches of the compute lane, each a CUDA graph. Stretches and the copies beside them are put on the
// streams by one thread in list order, iteration behind iteration. (In one graph for all lanes a copy was
// seen to wait for others that it had nothing to do with: docs/cuda.md.) Where a timeline is asked for, or an
// engine cannot be recorded, all iterations are issued.
//
// While a thread is in a call that migrates managed memory, the calls of all others wait, launches too, and
// whoever migrates next is seldom one that waited. So an eviction is made in pieces of the step's call size,
// and before each the lanes that have something to issue go first, for as long as the step says.
//
// A discard of managed memory takes its time on the CPU, and on a stream that is busy it was seen to take
// effect late, after what was put on the stream behind it. So discards are made by a thread of their own, the
// keeper of room: for every step of the lane to the host it waits until the lane's thread has handed it over
// and the device has done it, discards on a stream that does nothing else, and only then lets others go on.
// Room for a twinned tensor is populated in the same way by the lane to the device, before its copy.
//
// Engines, operands, events and memory are all made before the first step; graphs are made between the first
// iteration and the second.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "backends/cuda/recording.hpp"
#include "backends/cuda/session.hpp"
#include "core/stretches.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {

class executor {
 public:
  // Allocates the arenas and sets the initial state. `g` and `plan` must outlive the executor.
  // Throws unsupported, out_of_memory, or std::invalid_argument for a plan whose workspaces are too
  // small for this device's engines.
  executor(session& on, const graph& g, const execution_plan& plan);

  execution run(const execution_request& how);

  // The value of a tensor that survives, after a run.
  std::vector<std::byte> value_of(tensor_id what) const;

 private:
  // Counted by a lane's thread as it issues the copies of an iteration.
  struct moved_bytes {
    byte_count to_device = 0, to_host = 0;   // copies of staged and twinned tensors
    byte_count prefetched = 0, evicted = 0;  // managed: asked for, of which some may be in place already
    moved_bytes& operator+=(const moved_bytes& other);
  };
  struct lane_work {
    cudaStream_t stream = nullptr;
    moved_bytes moved;
    std::vector<std::uint32_t> steps;
    std::atomic<std::int32_t> issued{no_step};   // last step that others may wait for by its event
    std::atomic<std::int32_t> handed{no_step};   // last step handed to the keeper of room
    std::atomic<std::int32_t> awaited{no_step};  // step of the lane to the host that the next one needs
    std::atomic<bool> calling{false};            // its thread is in a call, or about to be
    std::exception_ptr failure;
  };
  // What a step needs at run time besides the plan.
  struct step_work {
    kernel_call call;    // compute
    recording recorded;  // the call as a CUDA graph, which `call` then launches
    event done;          // if a step of another lane waits for it
    event copied;        // to_host, if a keeper gives up room behind it
    event begin, end;    // if a timeline is asked for
  };

  void choose_engines();
  std::vector<slice_cost> slices() const;
  void allocate();
  void make_events(bool timeline);
  void set_initial_state();

  using watcher = std::function<void(std::uint32_t done)>;

  void issue_iterations(std::uint32_t first, std::uint32_t end, bool timeline, const watcher& watch,
                        std::vector<trace>& traces);
  void run_lane(lane which, std::uint32_t iteration, bool timeline);
  void finish_step(lane which, std::uint32_t index);
  void let_go(lane which);
  void run_keeper();
  void give_up_room(const step& s);
  void evict_in_calls(managed_range what, const step& s, cudaStream_t on, moved_bytes& moved);
  bool others_call() const;
  void move_twin(const step& s, cudaStream_t on, moved_bytes& moved);
  void poison(const step& s, cudaStream_t on);
  void poison_arenas();
  bool wait_for_others(const step& s, lane which);
  void wait_until_issued(lane_work& mine, lane other, std::int32_t index);
  void issue(const step& s, step_work& work, cudaStream_t on, std::uint32_t iteration);
  void copy(const pitched_copy& c, cudaStream_t on) const;
  kernel_call bound_call(const step& s, const engine& chosen) const;
  bool record_operators();
  bool record_stretches();
  launch_way way_of_stretches() const;
  void launch_iteration();
  void launch_iterations(std::uint32_t count, std::vector<trace>& traces);
  moved_bytes take_moved();
  void linger(const execution_request& how, nanoseconds each);
  void keep_trace(std::vector<trace>& traces, std::chrono::nanoseconds duration, bool timeline,
                  const watcher& watch, std::uint32_t done);
  trace trace_of(std::chrono::nanoseconds duration, const moved_bytes& moved, bool timeline) const;
  void fill_timeline(trace& t) const;
  void fill_counters(counters& to, const moved_bytes& moved) const;

  std::byte* base_of(space where) const;
  std::uint32_t alignment_of(const step& s) const;
  void read(address from, byte_count offset, std::span<std::byte> to) const;
  void write_values(const std::filesystem::path& folder) const;
  std::uint64_t digest_of_results() const;
  std::optional<double> loss() const;

  session& on_;
  const graph& g_;
  const execution_plan& plan_;
  arena ballast_, device_, pinned_, managed_;
  stream to_device_, to_host_, room_, filling_;
  event start_, fork_;
  std::array<lane_work, lane_count> lanes_;
  std::vector<engine> engines_;  // one per step; empty but for computes
  std::vector<step_work> work_;  // one per step
  bool keeps_room_ = false;      // some step gives room back to the driver by a discard
  bool poisons_ = false;
  launch_order order_;               // where the plan is launched in stretches, as is the next
  std::vector<recording> recorded_;  // one per stretch
  std::atomic<bool> keeper_calls_{false};
  std::exception_ptr keeper_failure_;  // apart from its lane's, whose thread may fail at the same time
  std::atomic<bool> failed_{false};
};

}  // namespace um
