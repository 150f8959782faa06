#include "harness/json/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
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
#include "harness/io/files.hpp"
#include "harness/io/say.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

// The start of an environment line, torn at any place.
bool looks_like_record(std::string_view torn) {
  return torn.starts_with(opening_of_records.substr(0, torn.size()));
}

// Size of the file; nothing for a device or a pipe.
std::optional<off_t> file_size(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

// Writes the directory entry of a new file to disk.
void sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
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

// Waits until the pipe accepts more data or its reader is gone, which the next write reports. False if a stop
// signal came.
bool wait_for_reader(int pipe) {
  pollfd writable{pipe, POLLOUT, 0};
  while (poll(&writable, 1, 100) <= 0) {
    if (is_stop_requested()) return false;
  }
  return true;
}

bool is_same_file(int descriptor, int other) {
  struct stat a{}, b{};
  return fstat(descriptor, &a) == 0 && fstat(other, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// The byte of each lock, beyond the end of any file. Locks belong to open file descriptions, so that two
// objects of one process exclude each other as well.
enum class lock_byte : off_t { work = off_t{1} << 61, write };

bool try_lock(int descriptor, lock_byte byte, short lock_type) {
  struct flock range{};
  range.l_type = lock_type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(byte);
  range.l_len = 1;
  const int done = retry_if_interrupted([&] { return fcntl(descriptor, F_OFD_SETLK, &range); });
  return done == 0 || (errno != EAGAIN && errno != EACCES);  // or the file system has no locks
}

int open_record_descriptor(const std::filesystem::path& path, bool reads) {
  struct stat status{};
  const bool is_there = stat(path.c_str(), &status) == 0;
  int how = reads ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND;
  // Opens a pipe for writing only: otherwise a missing reader would go unnoticed.
  if (!reads && is_there && S_ISFIFO(status.st_mode)) how = O_WRONLY | O_NONBLOCK;
  if (!reads && is_there && S_ISCHR(status.st_mode)) how = O_WRONLY;
  return retry_if_interrupted([&] { return open(path.c_str(), how | O_CLOEXEC, 0644); });
}

}  // namespace

record_file::record_file(std::filesystem::path path, open_mode mode) : path_(std::move(path)) {
  const bool reads = mode == open_mode::read;
  if (path_ == "-" && !reads) {
    throw input_error("-: records go into a file; name it, such as a.jsonl (./- for one called so)");
  }
  descriptor_ = open_record_descriptor(path_, reads);
  if (descriptor_ < 0) {
    throw input_error(fmt::format("{}: cannot {}: {}{}", one_line(path_.string()), reads ? "read" : "write",
                                  errno == ENXIO ? "nobody reads from it" : std::strerror(errno),
                                  reads ? "" : "; choose another --out"));
  }
  try {
    load_existing(mode);
  } catch (const std::bad_alloc&) {
    close(descriptor_);
    throw input_error(
        fmt::format("{}: cannot read: memory does not suffice for it", one_line(path_.string())));
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

record_file::~record_file() {
  close(descriptor_);
}

void record_file::load_existing(open_mode mode) {
  if (mode == open_mode::read) {
    load(read_descriptor(descriptor_, path_), mode);
    return;
  }
  for (const int shown : {STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_same_file(descriptor_, shown)) continue;
    throw input_error(fmt::format("{}: standard {} goes there as well; choose another --out",
                                  one_line(path_.string()), shown == STDOUT_FILENO ? "output" : "error"));
  }
  if (!file_size(descriptor_)) return;  // a device or a pipe has no earlier contents, and needs no lock
  if (mode != open_mode::add) lock_for_work();
  const bool holds_something = file_size(descriptor_).value_or(0) > 0;
  if (mode == open_mode::create && holds_something) {
    throw input_error(fmt::format("{}: exists already; go on with it by --resume, or choose another --out",
                                  one_line(path_.string())));
  }
  const write_lock lock(*this);
  if (!holds_something) sync_folder_of(path_);
}

bool record_file::lock_for_writing() {
  if (!file_size(descriptor_)) return false;
  if (lock_depth_ == 0) wait_for_lock();
  ++lock_depth_;
  try {
    return lock_depth_ == 1 && read_added_lines();
  } catch (...) {
    unlock();
    throw;
  }
}

void record_file::unlock() {
  if (lock_depth_ > 0 && --lock_depth_ == 0) try_lock(descriptor_, lock_byte::write, F_UNLCK);
}

void record_file::lock_for_work() {
  // The lock may still be held for a moment by a child that a killed umbench had just started.
  for (int attempt = 0; !try_lock(descriptor_, lock_byte::work, F_WRLCK); ++attempt) {
    if (attempt == 100 || is_stop_requested()) {
      throw input_error(
          fmt::format("{}: another umbench is at work on it; wait for it or choose another --out",
                      one_line(path_.string())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

void record_file::wait_for_lock() {
  for (int attempt = 0; !try_lock(descriptor_, lock_byte::write, F_WRLCK); ++attempt) {
    if (attempt == 100) print_text("{}: waiting for another umbench that writes to it\n", path_.string());
    if (is_stop_requested()) {
      throw append_error(
          fmt::format("{}: stopped while another umbench wrote to it", one_line(path_.string())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

// Reads the lines added since the last read, or the whole file if it cannot tell them.
bool record_file::read_added_lines() {
  const auto size = static_cast<std::size_t>(file_size(descriptor_).value_or(0));
  if (size == known_bytes_) return false;
  if (size < known_bytes_ || lacks_last_line_break_) {
    earlier_records_.clear();
    environments_.clear();
    environment_indices_.clear();
    known_bytes_ = lines_ = 0;
  }
  if (size > 0) load(read_descriptor(descriptor_, path_, known_bytes_), open_mode::add);
  return true;
}

void record_file::load(const std::string& text, open_mode mode) {
  std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  lacks_last_line_break_ = whole < text.size() && is_json(std::string_view(text).substr(whole));
  if (lacks_last_line_break_) whole = text.size();
  torn_bytes_ = text.size() - whole;
  if (known_bytes_ == 0 && whole == 0 && !looks_like_record(text)) {
    throw input_error(fmt::format("{}: is no record file of umbench{}", one_line(path_.string()),
                                  mode == open_mode::read ? "" : "; choose another --out"));
  }
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = std::min(text.find('\n', begin), whole);
    load_line(std::string_view(text).substr(begin, end - begin), ++lines_);
    begin = end + 1;
  }
  known_bytes_ += whole;
  if (torn_bytes_ == 0) return;
  if (mode != open_mode::read &&
      retry_if_interrupted([&] { return ftruncate(descriptor_, static_cast<off_t>(known_bytes_)); }) != 0) {
    throw input_error(fmt::format("{}: cannot cut off its torn last line: {}", one_line(path_.string()),
                                  std::strerror(errno)));
  }
  print_text("{}: {} a torn last line of {} bytes\n", path_.string(),
             mode == open_mode::read ? "left out" : "cut off", torn_bytes_);
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
  const write_lock lock(*this);
  if (lacks_last_line_break_) line.insert(0, 1, '\n');
  line += '\n';
  const auto before = file_size(descriptor_);
  const auto give_up = [&](std::string why) {
    const bool cut = !before || retry_if_interrupted([&] { return ftruncate(descriptor_, *before); }) == 0;
    if (!cut) why += fmt::format(", nor cut back: {}", std::strerror(errno));
    throw append_error(fmt::format("{}: cannot add a record: {}; what was there before is kept",
                                   one_line(path_.string()), why));
  };
  for (std::string_view left = line; !left.empty();) {
    const ssize_t n = retry_if_interrupted([&] { return write(descriptor_, left.data(), left.size()); });
    if (n < 0 && errno == EAGAIN) {
      if (!wait_for_reader(descriptor_)) give_up("stopped while nobody read from it");
      continue;
    }
    if (n <= 0) give_up(std::strerror(n == 0 ? EIO : errno));
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  // Devices and pipes cannot be synchronised, and need not be.
  if (retry_if_interrupted([&] { return fdatasync(descriptor_); }) != 0 && errno != EINVAL &&
      errno != ENOTSUP) {
    give_up(std::strerror(errno));
  }
  lacks_last_line_break_ = false;
  known_bytes_ += line.size();
  ++lines_;
  if (before && !file_is_unchanged()) {
    throw append_error(
        fmt::format("{}: was removed or replaced while records were added to it; they are lost",
                    one_line(path_.string())));
  }
}

bool record_file::file_is_unchanged() const {
  struct stat named{}, held{};
  return fstat(descriptor_, &held) != 0 ||
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
