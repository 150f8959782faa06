#include "harness/commands/scripts.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "harness/io/errors.hpp"
#include "harness/io/say.hpp"

namespace um {
namespace {

namespace fs = std::filesystem;

constexpr std::array commands{
    script_command{"compare", "compare", "Compare two record files: has anything become slower?"},
    script_command{"export", "export", "Write a record file in the format of another tool"},
    script_command{"fit", "forecast", "Say what fitting a PyTorch model into a budget would cost"},
    script_command{"report", "plots.report", "Write one HTML page, with figures, of record files"},
    script_command{"plot", "plots", "Draw record files: slowdown, growth, timeline, bounds, peers"},
    script_command{"reproduce", "reproduce", "Run what papers measured, published beside ours"},
    script_command{"trace", "trace.record", "Record what Unified Memory does in any CUDA program"},
    script_command{"explain", "trace.explain", "Say why a traced program is slow and what would help"},
    script_command{"interleave", "interleave", "Run a sweep by two programs in turn, for compare"},
};

// The script that starts a module of the Python package umbench.
constexpr const char* starter = "python/start.py";

// The value of an environment variable; "" if it is not set.
std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path starter_path(const script_command& command) {
  std::error_code error;
  if (const std::string home = environment_variable("UMBENCH_HOME"); !home.empty()) {
    const fs::path path = fs::path(home) / starter;
    if (fs::exists(path, error)) return path;
    throw input_error(fmt::format("{}: {} is not there; let UMBENCH_HOME name umbench's repository",
                                  command.name, path.string()));
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    for (const fs::path& place :
         {folder, folder / "share/umbench"}) {  // the places in a checkout and in an installation
      if (fs::exists(place / starter, error)) return place / starter;
    }
    if (folder == folder.root_path()) break;
  }
  throw input_error(fmt::format("{}: {} is in no folder above {}; let UMBENCH_HOME name umbench's repository",
                                command.name, starter, program.string()));
}

// Prefers Debian's interpreter: it finds Debian's SciPy and matplotlib.
std::string python_interpreter() {
  const std::string asked = environment_variable("UMBENCH_PYTHON");
  if (!asked.empty()) return asked;
  constexpr const char* debian = "/usr/bin/python3";
  return ::access(debian, X_OK) == 0 ? debian : "python3";
}

}  // namespace

std::span<const script_command> script_commands() {
  return commands;
}

const script_command* find_script(const std::string& command) {
  const auto at =
      std::find_if(commands.begin(), commands.end(), [&](const auto& c) { return command == c.name; });
  return at == commands.end() ? nullptr : &*at;
}

void exec_script(const script_command& command, const std::vector<std::string>& arguments) {
  const std::string python = python_interpreter();
  std::vector<std::string> words{python, starter_path(command).string(), command.module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
  std::error_code error;
  if (const fs::path own = fs::read_symlink("/proc/self/exe", error); !error)
    setenv("UMBENCH_PROGRAM", own.c_str(), 1);
  execvp(python.c_str(), argv.data());
  throw input_error(fmt::format("{}: cannot start {}: {}; install Python 3 or let UMBENCH_PYTHON name it",
                                command.name, python, std::strerror(errno)));
}

namespace {

// Runs the script in a child process and returns its exit code.
int run_script(const script_command& command, const std::vector<std::string>& arguments) {
  constexpr int cannot_start = 2;
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), command.name);
  if (child == 0) {
    try {
      exec_script(command, arguments);
    } catch (const input_error& error) {
      print_text("umbench: {}\n", error.what());
    }
    _exit(cannot_start);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : cannot_start;
}

}  // namespace

void print_slowdowns(const std::string& records) {
  std::fflush(stdout);
  run_script({"table of slowdowns", "plots.table", ""}, {records});
}

std::string graph_of_trace(const std::string& trace) {
  const std::string graph =
      (trace.ends_with(".jsonl") ? trace.substr(0, trace.size() - 6) : trace) + ".graph.json";
  const int code = run_script(*find_script("export"), {trace, "--format", "graph", "--out", graph});
  if (code != 0) throw script_failure{code};
  return graph;
}

}  // namespace um
