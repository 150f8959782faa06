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
  create,  // refuse a file that holds something
  resume,  // go on with what is there
  add,     // the same, whoever is at work on it
  read,    // change nothing; the file may be a pipe
};

class record_file {
 public:
  // Throws input_error: it cannot be opened or read to its end, holds something else, another process is at
  // work on it (create, resume), or standard output or error go there. A torn last line, left by a crash, is
  // left out with open_mode::read and else cut off. Throws append_error if a stop signal comes while it waits
  // for one that adds to it.
  record_file(std::filesystem::path path, open_mode how);
  ~record_file();
  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // What the file held when it was opened, and what others had added when the last lock was taken.
  const std::vector<record>& earlier() const { return earlier_records_; }
  // Those that were appended since as well.
  const std::vector<environment>& environments() const { return environments_; }
  // Index of the environment in which the record earlier()[i] was made.
  std::size_t environment_of(std::size_t i) const { return environment_indices_.at(i); }
  bool was_torn() const { return torn_bytes_ > 0; }

  // While it lives nobody else adds to the file.
  class write_lock {
   public:
    explicit write_lock(record_file& file) : file_(&file), others_added_(file.lock_for_writing()) {}
    ~write_lock() { file_->unlock(); }
    write_lock(const write_lock&) = delete;
    write_lock& operator=(const write_lock&) = delete;
    // Whether others have added something since the last lock.
    bool others_added() const { return others_added_; }

   private:
    record_file* file_;
    bool others_added_;
  };

  // Adds one line, under the lock that is held or one of its own, and returns once it is on the disk. Throws
  // append_error.
  void append(const environment& e);
  void append(const record& r);

 private:
  void begin(open_mode how);
  bool lock_for_writing();
  void unlock();
  void lock_for_work();
  void wait_for_lock();
  bool read_added();
  void load(const std::string& text, open_mode how);
  void load_line(std::string_view line, std::size_t number);
  void append_line(std::string line);
  bool file_is_unchanged() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int lock_depth_ = 0;           // number of nested locks
  std::size_t known_bytes_ = 0;  // bytes of the file read or written so far
  std::size_t lines_ = 0;
  bool unended_ = false;        // the last line lacks its line break
  std::size_t torn_bytes_ = 0;  // bytes of an incomplete last line
  std::vector<record> earlier_records_;
  std::vector<environment> environments_;
  std::vector<std::size_t> environment_indices_;
};

// Whether they are equal except for their time.
bool same_environment(const environment& a, const environment& b);

// Appends the environment unless the file's last one differs in nothing but its time.
void note_environment(record_file& file, const environment& here);

}  // namespace um
