#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "harness/commands/options.hpp"
#include "harness/commands/scripts.hpp"
#include "harness/json/record_file.hpp"
#include "harness/records/say.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

constexpr int exit_failed = 1, exit_usage = 2;

int dispatch(const CLI::App& app, const command_line& c) {
  if (app.got_subcommand("list")) return list_command(c.list);
  if (app.got_subcommand("advise")) return advise_command(c.advise);
  if (app.got_subcommand("env")) return env_command(c.env);
  if (app.got_subcommand("calibrate")) return calibrate_command(c.calibrate);
  if (app.got_subcommand("validate")) return validate_command(c.validate);
  if (app.got_subcommand("plan")) return plan_command(c.plan);
  if (app.got_subcommand("run")) return run_command(c.run);
  if (app.got_subcommand("sweep")) return sweep_command(c.sweep);
  if (app.got_subcommand("tune")) return tune_command(c.tune);
  if (app.got_subcommand("ablate")) return ablate_command(c.ablate);
  if (app.got_subcommand("merge")) return merge_command(c.merge);
  return pack_command(c.pack);
}

// Standard output whose reader left ends the command as it would end any other: without a word.
constexpr int exit_reader_left = 128 + SIGPIPE;

// What cannot be written; the exit code. Nothing of it is tried again.
int output_failed(int why) {
  __fpurge(stdout);
  errno = 0;
  if (why == 0 && write(STDOUT_FILENO, "", 0) < 0) why = errno;
  if (why == EPIPE) return exit_reader_left;
  say("umbench: cannot write standard output{}\n", why == 0 ? "" : fmt::format(": {}", std::strerror(why)));
  return exit_failed;
}

// A closed standard stream gets a descriptor on which nothing works, lest the next file that is opened become
// it.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int wrong_way = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", wrong_way) != stream) std::_Exit(exit_failed);
  }
}

// Of what is too long to read, the beginning and the end.
std::string shortened(std::string text) {
  constexpr std::size_t most = 1800, end = 400;
  return text.size() <= most ? text : text.substr(0, most - end) + " ... " + text.substr(text.size() - end);
}

int fail(int code, std::string_view what) {
  say("umbench: {}\n", shortened(one_line(what)));
  return code;
}

// A misspelt command, which the parser would report as a missing one.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return;
    if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  throw input_error(unknown_name("command", argv[1], known));
}

// What the parser found wrong, and where to read on.
std::string refusal(const CLI::ParseError& error, int argc, char** argv) {
  std::string text = error.what();
  const std::size_t repeated = text.find(": At Most 1 required");
  if (repeated != std::string::npos) text = text.substr(0, repeated) + " is given more than once; keep one";
  const bool in_command = argc > 1 && argv[1][0] != '-';
  return fmt::format("{}; see umbench {}--help", text, in_command ? argv[1] + std::string(" ") : "");
}

// Destructors of libraries ask for memory as well, and cannot throw.
[[noreturn]] void end_without_memory() {
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
  CLI::App app("Performance of CUDA Unified Memory on deep learning", "umbench");
  command_line c;
  describe(app, c);
  try {
    refuse_unknown_command(app, argc, argv);
    if (const script_command* script = argc > 1 ? script_named(argv[1]) : nullptr) {
      run_script(*script, {argv + 2, argv + argc});
    }
    app.parse(argc, argv);
    return dispatch(app, c);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(exit_usage, refusal(error, argc, argv));
  } catch (const input_error& error) {
    return fail(exit_usage, error.what());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return output_failed(error.code().value());
    return fail(exit_failed, error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(exit_failed, error.what());
  }
} catch (const std::bad_alloc&) {  // words for it must need none
  std::fputs(no_memory, stderr);
  return exit_usage;
}

}  // namespace
}  // namespace um

int main(int argc, char** argv) {
  std::set_terminate(um::end_without_memory);
  um::occupy_standard_streams();
  const int code = um::parse_and_run(argc, argv);
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || code != 0 ? code : um::output_failed(errno);
}
