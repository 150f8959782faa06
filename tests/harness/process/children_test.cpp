// Children that play parts: what they do is a function of this file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "harness/json/json.hpp"
#include "harness/process/child.hpp"
#include "harness/process/isolation.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

using namespace std::chrono_literals;

child_report run_job(const child_job& job, std::chrono::seconds deadline = 1h) {
  signal_watch signals;
  child_pool pool(signals);
  pool.start(7, job, {deadline});
  auto report = pool.wait();
  EXPECT_TRUE(report);
  return report.value_or(child_report{});
}

child_job job_that_prints(const std::string& text) {
  return [text] {
    std::cout << text;
    return 0;
  };
}

int hang() {
  const pid_t grandchild = fork();
  if (grandchild > 0) std::cout << grandchild << std::flush;
  while (true) pause();
}

// A process that nobody has waited for yet does not run any more.
bool is_running(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z" && state != "X";
}

TEST(Child, GivesItsOutput) {
  const std::string much(1'000'000, 'x');  // more than any pipe holds
  const child_report report = run_job(job_that_prints(much));
  EXPECT_EQ(report.id, 7U);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.output, much);
}

// What a buffer of the parent holds, the files that it has open and the signals that it ignores are its own.
TEST(Child, StartsAfresh) {
  std::fputs("not for the child\n", stdout);
  const int mine = open("/dev/null", O_RDONLY | O_CLOEXEC), everybodys = open("/dev/null", O_RDONLY);
  const child_report report = run_job([&] {
    struct sigaction pipe{};
    sigaction(SIGPIPE, nullptr, &pipe);
    sigset_t held;
    sigprocmask(SIG_BLOCK, nullptr, &held);
    std::cout << (fcntl(mine, F_GETFD) < 0) << (fcntl(everybodys, F_GETFD) >= 0) << (std::cin.get() == EOF)
              << (pipe.sa_handler == SIG_DFL) << (sigismember(&held, SIGTERM) == 0)
              << (getpgrp() == getpid());
    return 0;
  });
  close(mine);
  close(everybodys);
  EXPECT_EQ(report.output, "111111");
}

TEST(Child, WhatItThrowsIsItsLastWord) {
  const child_report report = run_job([]() -> int { throw std::runtime_error("it broke"); });
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_EQ(report.error_tail, "umbench: it broke\n");
  EXPECT_EQ(run_job([] { return 3; }).exit_code, 3);
}

TEST(Child, ASignalIsReportedWithTheLastWords) {
  const child_report report = run_job([]() -> int {
    std::cerr << std::string(10'000, '.') << "last words" << std::flush;
    std::abort();
  });
  EXPECT_EQ(report.signal, SIGABRT);
  EXPECT_EQ(report.exit_code, std::nullopt);
  EXPECT_LE(report.error_tail.size(), 4096U);
  EXPECT_EQ(report.error_tail.substr(report.error_tail.size() - 10), "last words");
}

TEST(Child, TheDeadlineKillsItAndItsOwnChildren) {
  child_report report;
  for (auto deadline = 1s; report.output.empty(); deadline *= 2) {  // a slow machine needs longer to begin
    report = run_job(hang, deadline);
    EXPECT_TRUE(report.has_timed_out);
    EXPECT_FALSE(report.is_stuck);
  }
  const pid_t grandchild = std::stoi(report.output);
  while (is_running(grandchild)) std::this_thread::sleep_for(50ms);
}

TEST(Child, AStopSignalEndsTheWait) {
  signal_watch signals;
  child_pool pool(signals);
  pool.start(0, hang, {3600s});
  kill(getpid(), SIGTERM);
  EXPECT_FALSE(pool.wait());
  EXPECT_EQ(signals.stop_signal(), SIGTERM);
  pool.kill_all();
  EXPECT_EQ(pool.running(), 0U);
}

TEST(Child, SeveralRunAtATime) {
  signal_watch signals;
  child_pool pool(signals);
  for (std::size_t id = 0; id < 8; ++id) pool.start(id, job_that_prints(std::to_string(id)), {3600s});
  std::size_t ended = 0;
  while (const auto report = pool.wait()) {
    EXPECT_EQ(report->output, std::to_string(report->id));
    ++ended;
  }
  EXPECT_EQ(ended, 8U);
}

TEST(Child, IsTakenBeforeItsParentWhenMemoryRunsOut) {
  const child_report report = run_job([] {
    std::cout << std::ifstream("/proc/self/oom_score_adj").rdbuf();
    return 0;
  });
  EXPECT_EQ(report.output, "1000\n");
  EXPECT_FALSE(report.ran_out_of_memory);
}

TEST(Child, UninterruptibleSleepIsReportedNotWaitedFor) {
  signal_watch signals;
  child_pool pool(signals);
  process_probe asleep = make_proc_probe();
  asleep.state = [](pid_t) { return 'D'; };
  pool.start(1, hang, {.deadline = 1s, .kill_patience = 1s}, asleep);
  const auto report = pool.wait();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->is_stuck);
  EXPECT_EQ(report->last_state, 'D');
}

TEST(Child, TheKernelsProbeSeesAProcessOfOurs) {
  const process_probe probe = make_proc_probe();
  EXPECT_EQ(probe.state(getpid()), 'R');
  EXPECT_EQ(probe.state(-1), 0);
  EXPECT_EQ(probe.out_of_memory_kills(), probe.out_of_memory_kills());
}

TEST(Cell, EveryEndHasItsOutcome) {
  const cell work = sample_cell();
  child_report report;
  report.exit_code = 0;
  report.output = to_json(sample_record());
  EXPECT_EQ(record_of(work, report).result, outcome::ok);
  report.output = "nonsense";
  EXPECT_EQ(record_of(work, report).result, outcome::crashed);
  report.exit_code = 1;
  report.error_tail = "umbench: it broke\n";
  EXPECT_EQ(record_of(work, report).reason, "exited with code 1: umbench: it broke");
  report.exit_code.reset();
  report.signal = SIGSEGV;
  EXPECT_EQ(record_of(work, report).reason, "killed by SIGSEGV: umbench: it broke");
  report.signal = SIGKILL;
  EXPECT_EQ(record_of(work, report).reason, "killed by SIGKILL from outside: umbench: it broke");
  report.ran_out_of_memory = true;
  EXPECT_EQ(record_of(work, report).result, outcome::host_out_of_memory);
  report.has_timed_out = true;
  EXPECT_EQ(record_of(work, report).result, outcome::timeout);
  EXPECT_EQ(record_of(work, report).reason, "no result after 300 s; its process was killed");
  report.is_stuck = true;
  EXPECT_EQ(record_of(work, report).result, outcome::hung);
}

}  // namespace
}  // namespace um
