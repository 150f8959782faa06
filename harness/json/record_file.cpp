#include "harness/json/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "harness/io/errors.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

// Whether an incomplete line is the start of an environment line.
bool is_start_of_environment_line(std::string_view torn) {
  return torn.starts_with(opening_of_records.substr(0, torn.size()));
}

// Writes the directory entry of a new file to disk.
void sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const descriptor entry(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fsync(entry.get());
}

std::string without_creation_time(environment e) {
  e.created.clear();
  return to_json(e);
}

// Whether a stop signal is pending, even while a signal_watch blocks it.
bool is_stop_requested() {
  sigset_t waiting;
  if (sigpending(&waiting) != 0) return false;
  constexpr std::array stops{SIGINT, SIGTERM, SIGHUP};
  return std::any_of(stops.begin(), stops.end(), [&](int s) {
    struct sigaction action{};
    return sigismember(&waiting, s) == 1 && sigaction(s, nullptr, &action) == 0 &&
           action.sa_handler != SIG_IGN;
  });
}

bool is_same_file(int descriptor, int other) {
  struct stat a{}, b{};
  return fstat(descriptor, &a) == 0 && fstat(other, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

record_file::record_file(std::filesystem::path path, open_mode mode) : path_(std::move(path)) {
  const bool reads = mode == open_mode::read;
  if (path_ == "-" && !reads) {
    throw input_error("-: records go into a file; name it, such as a.jsonl (./- for one called so)");
  }
  file_ = descriptor(retry_if_interrupted([&] {
    return open(path_.c_str(), (reads ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND) | O_CLOEXEC, 0644);
  }));
  if (!file_.open()) {
    throw input_error(fmt::format("{}: cannot {}: {}{}", one_line(path_.string()), reads ? "read" : "write",
                                  std::strerror(errno), reads ? "" : "; choose another --out"));
  }
  if (!reads) prepare_to_append(mode);
  const std::string text = read_descriptor(file_.get(), path_);
  if (mode == open_mode::create && !text.empty()) {
    throw input_error(fmt::format("{}: exists already; go on with it by --resume, or choose another --out",
                                  one_line(path_.string())));
  }
  if (!reads && text.empty()) {
    sync_folder_of(path_);
    return;
  }
  try {
    load_and_cut_torn_line(text, mode);
  } catch (const std::bad_alloc&) {
    throw input_error(
        fmt::format("{}: cannot read: memory does not suffice for it", one_line(path_.string())));
  }
}

void record_file::prepare_to_append(open_mode mode) {
  struct stat status{};
  if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw input_error(
        fmt::format("{}: records go into a regular file, and this is none; choose another --out",
                    one_line(path_.string())));
  }
  for (const int shown : {STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_same_file(file_.get(), shown)) continue;
    throw input_error(fmt::format("{}: standard {} goes there as well; choose another --out",
                                  one_line(path_.string()), shown == STDOUT_FILENO ? "output" : "error"));
  }
  lock(mode);
}

// Closing the descriptor unlocks the file. A file system without locks is not locked.
void record_file::lock(open_mode mode) {
  // A child of an umbench that was killed may hold its lock for a moment.
  constexpr int max_tries = 100;
  for (int attempt = 0; flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++attempt) {
    if (mode != open_mode::add && (attempt == max_tries || is_stop_requested())) {
      throw input_error(
          fmt::format("{}: another umbench is at work on it; wait for it or choose another --out",
                      one_line(path_.string())));
    }
    if (attempt == max_tries)
      print_text("{}: waiting for another umbench that writes to it\n", path_.string());
    if (is_stop_requested()) {
      throw append_error(
          fmt::format("{}: stopped while another umbench wrote to it", one_line(path_.string())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

void record_file::load_and_cut_torn_line(const std::string& text, open_mode mode) {
  std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  lacks_last_line_break_ = whole < text.size() && is_json(std::string_view(text).substr(whole));
  if (lacks_last_line_break_) whole = text.size();
  const std::size_t torn = text.size() - whole;
  if (whole == 0 && !is_start_of_environment_line(text)) {
    throw input_error(fmt::format("{}: is no record file of umbench{}", one_line(path_.string()),
                                  mode == open_mode::read ? "" : "; choose another --out"));
  }
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = std::min(text.find('\n', begin), whole);
    load_line(std::string_view(text).substr(begin, end - begin), ++lines);
    begin = end + 1;
  }
  if (torn == 0) return;
  if (mode != open_mode::read &&
      retry_if_interrupted([&] { return ftruncate(file_.get(), static_cast<off_t>(whole)); }) != 0) {
    throw input_error(fmt::format("{}: cannot cut off its torn last line: {}", one_line(path_.string()),
                                  std::strerror(errno)));
  }
  print_text("{}: {} a torn last line of {} bytes\n", path_.string(),
             mode == open_mode::read ? "left out" : "cut off", torn);
}

void record_file::load_line(std::string_view line, std::size_t number) {
  const std::string source = fmt::format("{}: line {}", path_.string(), number);
  if (kind_of_line(line, source) == line_kind::environment) {
    environments_.push_back(environment_from_json(line, source));
  } else {
    if (environments_.empty()) throw input_error(source + ": a record before any environment");
    earlier_records_.push_back(record_from_json(line, source));
    environment_indices_.push_back(environments_.size() - 1);
  }
}

void record_file::append(const environment& e) {
  append_line(to_json(e));
  environments_.push_back(e);
}
void record_file::append(const record& r) {
  append_line(to_json(r));
}

void record_file::append_line(std::string line) {
  if (lacks_last_line_break_) line.insert(0, 1, '\n');
  line += '\n';
  const off_t before = lseek(file_.get(), 0, SEEK_END);
  const auto give_up = [&](std::string why) {
    if (before >= 0 && retry_if_interrupted([&] { return ftruncate(file_.get(), before); }) != 0)
      why += fmt::format(", nor cut back: {}", std::strerror(errno));
    throw append_error(fmt::format("{}: cannot add a record: {}; what was there before is kept",
                                   one_line(path_.string()), why));
  };
  if (before < 0 || !write_all(file_.get(), line)) give_up(std::strerror(errno));
  // EINVAL, ENOTSUP: the file system has no fdatasync.
  if (retry_if_interrupted([&] { return fdatasync(file_.get()); }) != 0 && errno != EINVAL &&
      errno != ENOTSUP)
    give_up(std::strerror(errno));
  lacks_last_line_break_ = false;
  if (!file_is_unchanged()) {
    throw append_error(
        fmt::format("{}: was removed or replaced while records were added to it; they are lost",
                    one_line(path_.string())));
  }
}

bool record_file::file_is_unchanged() const {
  struct stat named{}, held{};
  return fstat(file_.get(), &held) != 0 ||
         (stat(path_.c_str(), &named) == 0 && named.st_dev == held.st_dev && named.st_ino == held.st_ino);
}

bool same_environment(const environment& a, const environment& b) {
  return without_creation_time(a) == without_creation_time(b);
}

void append_environment_if_new(record_file& file, const environment& here) {
  const auto& before = file.environments();
  if (before.empty() || !same_environment(before.back(), here)) file.append(here);
}

}  // namespace um
