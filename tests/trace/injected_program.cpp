// A program into which the library was injected, as the CUDA driver does it; CUPTI and that driver are fake.
//   injected_program LIBRARY short|paused|whole|crashed|followed|bytes_then_faults|faults_then_bytes|
//                           events|events_paused|events_of_bytes|events_after_bytes
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/trace/fake_cupti.hpp"
#include "tests/trace/fake_driver.hpp"

namespace {

constexpr std::uint64_t second = 1'000'000'000, base = std::uint64_t{200} << 20;
std::atomic<std::uint32_t> heard = 0;

void wait_until(const auto& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
void wait_for_records() {
  wait_until([] { return fake_waiting() == 0; });
}

// More than the first second of counting.
void use_up() {
  fake_kernel(2 * second, 3 * second, "heavy");
  fake_time(2 * second + 1);
  fake_move(250'000, base, 4096);
  wait_for_records();
  fake_time(3 * second + 1);
}

// Lets time pass, so that the library flushes, until the driver's events are in its queue.
void wait_for_events() {
  for (std::uint64_t at = 5 * second / 2; fake_events_waiting() > 0; at += second / 1000) {
    fake_time(at);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Lets time pass until the trace has a line of a kernel.
void wait_for_kernel_line() {
  const std::string path = std::getenv("UMBENCH_TRACE_OUT") + ("." + std::to_string(getpid()));
  const auto is_written = [&] {
    const std::string text{std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {}};
    return text.find(R"("kind":"kernel")") != std::string::npos;
  };
  for (std::uint64_t at = 4 * second; !is_written(); at += second / 10) {
    fake_time(at);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void count_by_events(bool until_it_pauses) {
  fake_kernel(2 * second, 3 * second, "light");
  fake_time(5 * second / 2);
  wait_until([] { return fake_events_enabled(); });
  fake_migrate(until_it_pauses ? 250'000 : 512, base, 4096);
  fake_fault(7, 3, base, !until_it_pauses);
  wait_for_events();
  if (until_it_pauses) wait_until([] { return !fake_events_enabled(); });
  std::printf("%d\n", fake_events_enabled());
  fake_time(3 * second + 1);
}

// Whether faults are counted: while the program counts as asked earlier, as asked later, and afterwards.
void change_follower(const auto& follow, bool earlier, bool later) {
  const auto ignore = [](const void*) {};
  follow(ignore, earlier);
  const bool with_earlier = fake_counts_faults();
  follow(ignore, later);
  const bool with_later = fake_counts_faults();
  follow(nullptr, later);
  std::printf("%d %d %d\n", with_earlier, with_later, fake_counts_faults());
}

}  // namespace

int main(int, char** argv) {
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))();
  const auto follow =
      reinterpret_cast<void (*)(void (*)(const void*), bool)>(dlsym(library, "umbench_trace_follow"));
  const std::string what = argv[2];
  if (what.starts_with("events")) fake_driver_begin();
  fake_context(0);
  if (what == "events_of_bytes" || what == "events_after_bytes") follow([](const void*) {}, false);
  if (what == "events_after_bytes") follow(nullptr, false);
  if (what.starts_with("events")) {
    count_by_events(what == "events_paused");
  } else if (what == "followed") {
    follow([](const void*) { ++heard; }, true);
    use_up();
    wait_until([] { return heard == 250'000; });
    std::printf("%d\n", fake_counts());
    follow(nullptr, true);
  } else if (what == "bytes_then_faults" || what == "faults_then_bytes") {
    change_follower(follow, what == "faults_then_bytes", what == "bytes_then_faults");
  } else if (what == "short") {
    fake_kernel(2 * second, 3 * second, "light");
    fake_time(2 * second + 1);
    fake_move(512, base, 4096);
    wait_for_records();
    fake_time(3 * second + 1);
  } else {
    use_up();
    if (what == "paused") {
      wait_until([] { return !fake_counts(); });
      fake_move(100, base, 4096);  // nobody counts it
      fake_kernel(4 * second, 5 * second, "light");
      fake_time(100 * second);
      wait_until([] { return fake_counts(); });
    } else {
      for (int i = 0; i < 50; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::printf("%d\n", fake_counts());
    if (what == "crashed") {
      wait_for_kernel_line();
      std::abort();
    }
  }
  return 0;
}
