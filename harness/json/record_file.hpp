// A JSON Lines file of records that only grows: one environment line, then a line a record. Two locks: one
// process at a time runs a sweep into it (`work`), and one at a time reads and appends (`write`), so others
// may add records while a sweep runs. Whatever fails, the lines that were complete stay. A last line that
// lacks its end but is whole JSON is a record; any other one is torn, and that it is left out or cut off is
// said.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/study/environment.hpp"
#include "harness/study/record.hpp"

namespace um {

// Thrown when a line cannot be added (a full disk, a pipe without reader, a file that was removed); the file
// is cut back to whole lines.
struct append_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class open_mode : std::uint8_t {
  create,  // refuse a file that is not empty
  resume,  // continue an existing file; no other process may work on it
  add,     // continue an existing file while others may work on it
  read,    // read only; the file may be a pipe
};

class record_file {
 public:
  // Throws input_error: it cannot be opened or read to its end, holds something else, another process is at
  // work on it (create, resume), or standard output or error go there. A torn last line, left by a crash, is
  // left out with open_mode::read and else cut off. Throws append_error if a stop signal comes while it waits
  // for one that adds to it.
  record_file(std::filesystem::path path, open_mode mode);
  ~record_file();
  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Records in the file when it was opened, and those that others had added by the last lock.
  const std::vector<record>& earlier() const { return earlier_records_; }
  // Environments in the file, including those appended since.
  const std::vector<environment>& environments() const { return environments_; }
  // Index of the environment of the record earlier()[i].
  std::size_t environment_of(std::size_t i) const { return environment_indices_.at(i); }
  bool was_torn() const { return torn_bytes_ > 0; }

  // While it exists, no other process appends to the file.
  class write_lock {
   public:
    explicit write_lock(record_file& file) : file_(&file), has_new_lines_(file.lock_for_writing()) {}
    ~write_lock() { file_->unlock(); }
    write_lock(const write_lock&) = delete;
    write_lock& operator=(const write_lock&) = delete;
    // Whether other processes have appended lines since the last lock.
    bool others_added() const { return has_new_lines_; }

   private:
    record_file* file_;
    bool has_new_lines_;
  };

  // Appends one line, under the current lock or one of its own, and returns when it is on disk. Throws
  // append_error.
  void append(const environment& e);
  void append(const record& r);

 private:
  void load_existing(open_mode mode);
  bool lock_for_writing();
  void unlock();
  void lock_for_work();
  void wait_for_lock();
  bool read_added_lines();
  void load(const std::string& text, open_mode mode);
  void load_line(std::string_view line, std::size_t number);
  void append_line(std::string line);
  bool file_is_unchanged() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int lock_depth_ = 0;           // number of nested locks
  std::size_t known_bytes_ = 0;  // bytes of the file read or written so far
  std::size_t lines_ = 0;
  bool lacks_last_line_break_ = false;  // the last line lacks its line break
  std::size_t torn_bytes_ = 0;          // bytes of an incomplete last line
  std::vector<record> earlier_records_;
  std::vector<environment> environments_;
  std::vector<std::size_t> environment_indices_;
};

// Whether two environments are equal except for their time.
bool same_environment(const environment& a, const environment& b);

// Appends the environment unless the file's last one differs in nothing but its time.
void append_environment_if_new(record_file& file, const environment& here);

}  // namespace um
