#include "harness/process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <stdexcept>
#include <utility>

#include "harness/io/files.hpp"
#include "harness/io/say.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};
constexpr std::size_t tail_bytes = 4096;
constexpr std::chrono::milliseconds longest_wait{500};

// Reports the failed call and errno.
[[noreturn]] void throw_errno(const char* call) {
  constexpr std::array shortages{EMFILE, ENFILE, EAGAIN, ENOMEM};
  const int code = errno;
  const std::string words = fmt::format("{}: {}", call, strerrordesc_np(code));
  if (std::ranges::find(shortages, code) != shortages.end()) throw no_child_available(words);
  throw std::runtime_error(words);
}

struct pipe_ends {
  descriptor read, write;
};

// Both ends close on exec, so that no sibling keeps them open.
pipe_ends make_pipe() {
  std::array<int, 2> fd{};
  if (pipe2(fd.data(), O_CLOEXEC) != 0) throw_errno("pipe");
  return {descriptor(fd[0]), descriptor(fd[1])};
}

void make_non_blocking(const descriptor& d) {
  fcntl(d.get(), F_SETFL, fcntl(d.get(), F_GETFL) | O_NONBLOCK);
}

// Appends what can be read without waiting; closes the descriptor at its end.
void drain_pipe(descriptor& from, std::string& into, std::size_t keep_last) {
  std::array<char, 65536> buffer;
  while (from.open()) {
    const ssize_t n = read(from.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      from.reset();
      return;
    }
    into.append(buffer.data(), static_cast<std::size_t>(n));
    if (into.size() > keep_last) into.erase(0, into.size() - keep_last);
  }
}

// --- in the child ---

// Closes the descriptors that are marked close-on-exec.
void close_marked_descriptors() {
  std::vector<int> open_ones;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open_ones.push_back(std::atoi(entry.path().filename().c_str()));
  }
  for (const int fd : open_ones) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) close(fd);
  }
}

// Raises oom_score_adj, so that the OOM killer picks this process before its parent.
void raise_oom_score() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

void reset_signals() {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) sigaction(s, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Connects the standard streams to the pipes and /dev/null. Drops text in the buffers, which the parent will
// write. Opens a file only after it has closed one, as there may be no descriptor left.
void redirect_streams(const descriptor& out, const descriptor& error) {
  dup2(out.get(), STDOUT_FILENO);
  dup2(error.get(), STDERR_FILENO);
  for (const descriptor* pipe : {&out, &error}) close(pipe->get());
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(in, STDIN_FILENO);
  close(in);
  for (std::FILE* stream : {stdin, stdout, stderr}) {
    __fpurge(stream);
    std::clearerr(stream);
  }
  for (std::ostream* stream : {&std::cout, &std::cerr}) stream->clear();
}

[[noreturn]] void run_in_child(pid_t parent, const child_job& job, const descriptor& out,
                               const descriptor& error) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  reset_signals();
  redirect_streams(out, error);
  int code = 1;
  try {
    close_marked_descriptors();
    raise_oom_score();
    code = job();
  } catch (const std::bad_alloc&) {  // must not allocate
    std::fputs(no_memory, stderr);
  } catch (const std::exception& defect) {
    std::fprintf(stderr, "umbench: %s\n", defect.what());
  }
  std::cout.flush();
  std::exit(std::fflush(stdout) == 0 || code != 0 ? code : 1);
}

pid_t start_child(const child_job& job, const descriptor& out, const descriptor& error) {
  std::fflush(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) throw_errno("cannot start a child process");
  if (pid == 0) run_in_child(parent, job, out, error);
  setpgid(pid, pid);  // both parent and child call this, since either may run first
  return pid;
}

}  // namespace

// --- signals ---

struct signal_watch::saved_actions {
  sigset_t mask;
  struct sigaction pipe, size, child;
};

namespace {

// nohup and background jobs of a shell ignore signals. signalfd would still report an ignored signal that is
// blocked.
bool is_ignored(int signal) {
  struct sigaction now{};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

signal_watch::signal_watch() : saved_(std::make_unique<saved_actions>()) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int s : stop_signals) {
    if (!is_ignored(s)) sigaddset(&watched, s);
  }
  sigprocmask(SIG_BLOCK, &watched, &saved_->mask);
  descriptor_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw_errno("signalfd");
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &saved_->pipe);
  sigaction(SIGXFSZ, &ignore, &saved_->size);
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard,
            &saved_->child);  // an ignored SIGCHLD would lose the exit codes of children
}

signal_watch::~signal_watch() {
  stop_signal();  // consumes pending signals, so that restoring the mask does not deliver them
  close(descriptor_);
  sigaction(SIGPIPE, &saved_->pipe, nullptr);
  sigaction(SIGXFSZ, &saved_->size, nullptr);
  sigaction(SIGCHLD, &saved_->child, nullptr);
  sigprocmask(SIG_SETMASK, &saved_->mask, nullptr);
}

std::optional<int> signal_watch::stop_signal() {
  signalfd_siginfo info;
  while (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number != SIGCHLD && !stop_signal_) stop_signal_ = number;
  }
  return stop_signal_;
}

// --- children ---

struct child_pool::child {
  child_report report;
  pid_t pid = 0;
  descriptor out, error;
  child_limits within{};
  clock::duration spent{};
  clock::time_point last_check = clock::now();
  std::chrono::nanoseconds computed{};  // processor time at last_check
  clock::time_point give_up_time;       // when a killed child counts as stuck
  process_probe probe;
  std::uint64_t kills_before = 0;

  void read_output() {
    drain_pipe(out, report.output, report.output.max_size());
    drain_pipe(error, report.error_tail, tail_bytes);
  }

  void kill_group() const { kill(-pid, SIGKILL); }

  void add_spent_time(char state) {
    const auto now = clock::now();
    auto passed = now - last_check;
    last_check = now;
    if (within.deadline_clock == deadline_clock_kind::processor) {
      const auto in_all = probe.processor_time(pid).value_or(computed + passed);
      // Waiting for a processor does not count, so for a runnable child only its processor time counts.
      if (state == 'R') passed = std::max(in_all - computed, std::chrono::nanoseconds{0});
      computed = in_all;
    }
    spent += passed;
  }

  void kill_and_mark_timed_out() {
    kill_group();
    report.has_timed_out = true;
    give_up_time = clock::now() + within.kill_patience;
  }

  // The time until the deadline or, of a killed child, until it counts as stuck.
  clock::duration time_left() const {
    return report.has_timed_out ? give_up_time - clock::now() : within.deadline - spent;
  }

  // Returns true once the process has ended, or is stuck because not even SIGKILL ends it.
  bool poll_for_end() {
    siginfo_t ended{};
    const char state = probe.state(pid);
    const bool asleep = state == 'D';  // a process in uninterruptible sleep has not ended
    if (!asleep && waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid) {
      kill_group();  // kills its remaining children, before the process number can be reused
      int status = 0;
      rusage used{};
      wait4(pid, &status, 0, &used);
      for (const timeval& t : {used.ru_utime, used.ru_stime}) {
        report.processor_time += std::chrono::seconds{t.tv_sec} + std::chrono::microseconds{t.tv_usec};
      }
      read_output();
      if (WIFEXITED(status)) report.exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) report.signal = WTERMSIG(status);
      report.ran_out_of_memory = probe.out_of_memory_kills() > kills_before;
      return true;
    }
    add_spent_time(state);
    if (time_left() > clock::duration::zero()) return false;
    if (report.has_timed_out) {
      report.is_stuck = true;
      return true;
    }
    report.last_state = state;
    kill_and_mark_timed_out();
    return false;
  }
};

child_pool::child_pool(signal_watch& signals) : signals_(&signals) {}
child_pool::~child_pool() {
  try {
    kill_all();
  } catch (const std::exception&) {  // without memory it cannot wait for them
    for (const auto& c : children_) c->kill_group();
  }
}

void child_pool::start(std::size_t id, const child_job& job, child_limits within, process_probe probe) {
  pipe_ends out = make_pipe(), error = make_pipe();
  for (const descriptor* ours : {&out.read, &error.read}) make_non_blocking(*ours);
  auto c = std::make_unique<child>();
  c->report.id = id;
  c->probe = std::move(probe);
  c->kills_before = c->probe.out_of_memory_kills();
  c->pid = start_child(job, out.write, error.write);
  c->out = std::move(out.read);
  c->error = std::move(error.read);
  c->last_check = clock::now();
  c->within = within;
  children_.push_back(std::move(c));
}

void child_pool::poll_once() {
  std::vector<pollfd> watched{{signals_->descriptor(), POLLIN, 0}};
  auto wait = longest_wait;
  for (const auto& c : children_) {
    if (c->out.open()) watched.push_back({c->out.get(), POLLIN, 0});
    if (c->error.open()) watched.push_back({c->error.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(c->time_left());
    wait = std::clamp(left, std::chrono::milliseconds{0}, wait);
  }
  poll(watched.data(), watched.size(), static_cast<int>(wait.count()));
}

std::optional<child_report> child_pool::reap() {
  for (auto& c : children_) {
    c->read_output();
    if (!c->poll_for_end()) continue;
    child_report report = std::move(c->report);
    std::swap(c, children_.back());
    children_.pop_back();
    return report;
  }
  return std::nullopt;
}

std::optional<child_report> child_pool::wait(const std::function<void()>& meanwhile) {
  while (!children_.empty() && !signals_->stop_signal()) {
    if (auto report = reap()) return report;
    if (meanwhile) meanwhile();
    poll_once();
  }
  return std::nullopt;
}

void child_pool::kill_all() {
  for (const auto& c : children_) c->kill_and_mark_timed_out();
  while (!children_.empty()) {
    if (!reap()) poll_once();
    signals_->stop_signal();  // consumes the signal, so that the descriptor is no longer readable
  }
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace um
