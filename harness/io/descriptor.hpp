// A file descriptor that is closed where its owner ends.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace um {

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // Closes it; false with errno if what was written is lost.
  bool reset() { return !open() || close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }

 private:
  int fd_ = -1;
};

}  // namespace um
