#include "harness/json/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "harness/json/json.hpp"
#include "harness/json/machines.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

constexpr std::string_view opening = R"({"kind":"environment")";

// The start of an environment line, torn at any place.
bool could_be_ours(std::string_view torn) {
  const std::size_t n = std::min(torn.size(), opening.size());
  return torn.substr(0, n) == opening.substr(0, n);
}

// Nothing where the descriptor has no end to ask for, such as a device.
std::optional<off_t> size_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

// Puts the entry of a new file into its folder on the disk as well.
void keep_name(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

std::string without_time(environment e) {
  e.created.clear();
  return to_json(e);
}

}  // namespace

record_file::record_file(std::filesystem::path path, open_mode how) : path_(std::move(path)) {
  const bool reads = how == open_mode::read;
  descriptor_ = open(path_.c_str(), (reads ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND) | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw input_error(fmt::format("{}: cannot {}: {}{}", path_.string(), reads ? "read" : "write",
                                  std::strerror(errno), reads ? "" : "; choose another --out"));
  }
  try {
    if (!reads) lock();
    const bool holds_something = size_of(descriptor_).value_or(0) > 0;
    if (how == open_mode::create && holds_something) {
      throw input_error(fmt::format("{}: exists already; go on with it by --resume, or choose another --out",
                                    path_.string()));
    }
    if (holds_something) load(how);
    if (!reads && !holds_something) keep_name(path_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

record_file::~record_file() {
  close(descriptor_);
}

void record_file::lock() {
  if (!size_of(descriptor_)) return;  // a device keeps nothing that two writers could spoil
  // A child that a killed umbench had just begun to start holds the lock for a moment longer.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) return;  // a file system without locks
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  throw input_error(fmt::format("{}: another umbench is writing to it; wait for it or choose another --out",
                                path_.string()));
}

void record_file::load(open_mode how) {
  const std::string text = read_file(path_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  was_torn_ = whole < text.size();
  if (whole == 0 && !could_be_ours(text)) {
    throw input_error(fmt::format("{}: is no record file of umbench{}", path_.string(),
                                  how == open_mode::read ? "" : "; choose another --out"));
  }
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = text.find('\n', begin);
    load_line(std::string_view(text).substr(begin, end - begin), ++number);
    begin = end + 1;
  }
  if (was_torn_ && how != open_mode::read && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
    throw input_error(
        fmt::format("{}: cannot cut off its torn last line: {}", path_.string(), std::strerror(errno)));
  }
}

void record_file::load_line(std::string_view line, std::size_t number) {
  const std::string source = fmt::format("{}: line {}", path_.string(), number);
  if (kind_of_line(line, source) == line_kind::environment) {
    environments_.push_back(environment_from_json(line, source));
  } else {
    if (environments_.empty()) throw input_error(source + ": a record before any environment");
    earlier_.push_back(record_from_json(line, source));
    made_in_.push_back(environments_.size() - 1);
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
  line += '\n';
  const auto before = size_of(descriptor_);
  const auto give_up = [&](int why) {
    if (before && ftruncate(descriptor_, *before) != 0) why = errno;
    throw append_error(fmt::format("{}: cannot add a record: {}; what was there before is kept",
                                   path_.string(), std::strerror(why)));
  };
  for (std::string_view left = line; !left.empty();) {
    const ssize_t n = write(descriptor_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up(errno);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  // Devices and pipes cannot be synchronised, and need not be.
  if (fdatasync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) give_up(errno);
}

bool same_environment(const environment& a, const environment& b) {
  return without_time(a) == without_time(b);
}

void note_environment(record_file& file, const environment& here) {
  const auto& before = file.environments();
  if (before.empty() || !same_environment(before.back(), here)) file.append(here);
}

}  // namespace um
