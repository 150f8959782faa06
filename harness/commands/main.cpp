#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "harness/commands/commands.hpp"
#include "harness/commands/scripts.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

constexpr int exit_failed = 1, exit_usage = 2;

// A closed pipe on standard output ends the command silently, as SIGPIPE would.
constexpr int exit_reader_left = 128 + SIGPIPE;

// Reports that standard output cannot be written; returns the exit code.
int report_output_failure(int error_number) {
  __fpurge(stdout);
  errno = 0;
  if (error_number == 0 && write(STDOUT_FILENO, "", 0) < 0) error_number = errno;
  if (error_number == EPIPE) return exit_reader_left;
  print_text("umbench: cannot write standard output{}\n",
             error_number == 0 ? "" : fmt::format(": {}", std::strerror(error_number)));
  return exit_failed;
}

// Fills closed standard streams, so that a later open() cannot reuse descriptors 0 to 2.
void fill_closed_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int wrong_way = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", wrong_way) != stream) std::_Exit(exit_failed);
  }
}

// Shortens a long message, keeping both ends.
std::string shorten_message(std::string text) {
  constexpr std::size_t max_length = 1800, end = 400;
  return text.size() <= max_length
             ? text
             : text.substr(0, max_length - end) + " ... " + text.substr(text.size() - end);
}

// Prints the message and returns the exit code.
int print_error(int code, std::string_view message) {
  print_text("umbench: {}\n", shorten_message(one_line(message)));
  return code;
}

// Called by std::terminate: a destructor that runs out of memory cannot throw.
[[noreturn]] void exit_out_of_memory() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fputs(no_memory, stderr);
    std::_Exit(exit_usage);
  } catch (...) {
  }
  std::abort();
}

int parse_and_run(int argc, char** argv) try {
  try {
    if (const script_command* script = argc > 1 ? find_script(argv[1]) : nullptr) {
      exec_script(*script, {argv + 2, argv + argc});
    }
    return run_command_line(argc, argv);
  } catch (const script_failure& failed) {
    return failed.exit_code;
  } catch (const input_error& error) {
    return print_error(exit_usage, error.what());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return report_output_failure(error.code().value());
    return print_error(exit_failed, error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return print_error(exit_failed, error.what());
  }
} catch (const std::bad_alloc&) {  // must not allocate
  std::fputs(no_memory, stderr);
  return exit_usage;
}

}  // namespace
}  // namespace um

int main(int argc, char** argv) {
  std::set_terminate(um::exit_out_of_memory);
  um::fill_closed_standard_streams();
  const int code = um::parse_and_run(argc, argv);
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || code != 0 ? code : um::report_output_failure(errno);
}
