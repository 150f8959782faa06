// Child processes that run a job, each in its own process group, with a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace um {

// Functions that query a child process; tests replace them.

struct process_probe {
  // The state letter of /proc/PID/stat: 'D' is uninterruptible sleep, which not even SIGKILL ends; 0 is
  // unknown.
  std::function<char(pid_t)> state;
  // Number of processes that the kernel has killed for lack of memory so far, here or in this cgroup.
  std::function<std::uint64_t()> out_of_memory_kills;
  // Processor time of the process, over all threads; nothing if it is unknown.
  std::function<std::optional<std::chrono::nanoseconds>(pid_t)> processor_time;
};

process_probe make_proc_probe();

// Until its destruction, SIGCHLD and those of SIGINT, SIGTERM and SIGHUP that are not ignored are read from a
// descriptor, and a write to a closed pipe or beyond a size limit gives an error instead of a signal.
class signal_watch {
 public:
  signal_watch();
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

  int descriptor() const { return descriptor_; }  // readable when a signal is pending
  // Returns the first stop signal since the watch began, if any. Does not block.
  std::optional<int> stop_signal();

 private:
  int descriptor_ = -1;
  std::optional<int> stop_signal_;
  struct saved_actions;
  std::unique_ptr<saved_actions> saved_;
};

// The clock of a deadline: wall-clock time, or processor time plus time asleep, which does not depend on
// other processes.
enum class deadline_clock_kind : std::uint8_t { clock, processor };

struct child_limits {
  std::chrono::milliseconds deadline;  // time after which the child is killed
  deadline_clock_kind deadline_clock = deadline_clock_kind::clock;
  std::chrono::milliseconds kill_patience{
      10'000};  // a killed child that has not ended after this time is stuck
};

struct child_report {
  std::size_t id = 0;                         // the id given to start()
  std::optional<int> exit_code;               // set if it exited
  std::optional<int> signal;                  // set if a signal killed it
  bool has_timed_out = false;                 // the deadline passed and its group was killed
  bool is_stuck = false;                      // not even SIGKILL ended it, since it hangs in the kernel
  bool ran_out_of_memory = false;             // the OOM killer killed processes while it ran
  char last_state = 0;                        // process state at the deadline, as in /proc
  std::chrono::nanoseconds processor_time{};  // processor time of it and its own children
  std::string output;                         // everything from its standard output
  std::string error_tail;                     // the end of its standard error
};

// The function that a child runs; returns its exit code. An exception ends it with code 1 and a message on
// standard error.
using child_job = std::function<int()>;

// Thrown if no descriptor, process or memory is available for another child; trying again after a running
// child has ended may succeed.
struct no_child_available : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs several children at a time. A process may have only one pool at a time.
class child_pool {
 public:
  explicit child_pool(signal_watch& signals);
  ~child_pool();  // kills the remaining children
  child_pool(const child_pool&) = delete;
  child_pool& operator=(const child_pool&) = delete;

  // Forks a child that runs `job` and ends. It has an empty standard input, no blocked or ignored signals,
  // and no descriptors that are marked close-on-exec. It is killed if this process ends, and before this
  // process if memory runs out. This process must have only one thread and must not have used CUDA, which
  // does not survive a fork. `probe` queries the child's state. Throws `no_child_available` or another
  // std::runtime_error if none can be started.
  void start(std::size_t id, const child_job& job, child_limits within,
             process_probe probe = make_proc_probe());
  std::size_t running() const { return children_.size(); }

  // Waits for the next child to end; nothing if a stop signal came first. Calls `meanwhile` twice a second or
  // more often.
  std::optional<child_report> wait(const std::function<void()>& meanwhile = {});
  // Kills every child and its group, and waits for them.
  void kill_all();

 private:
  struct child;
  void poll_once();
  std::optional<child_report> reap();

  signal_watch* signals_;
  std::vector<std::unique_ptr<child>> children_;
};

// "SIGABRT".
std::string signal_name(int signal);

}  // namespace um
