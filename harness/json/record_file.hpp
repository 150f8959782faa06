// A JSON Lines file of records that only grows: one environment line, then a line a record. One process at a
// time looks at it and adds to it; one at a time, for as long as it likes, is at work on it, while others may
// add records of their own. Whatever fails, the lines that were complete stay. A last line that lacks its end
// but is whole JSON is a record; any other one is torn, and that it is left out or cut off is said.
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
  // What the file held when it was opened, and what others have added to it before the last turn.
  const std::vector<record>& earlier() const { return earlier_; }
  // Those that were appended since as well.
  const std::vector<environment>& environments() const { return environments_; }
  // Index of the environment in which the record earlier()[i] was made.
  std::size_t environment_of(std::size_t i) const { return made_in_.at(i); }
  bool was_torn() const { return torn_bytes_ > 0; }

  // While it lives nobody else adds to the file.
  class turn {
   public:
    explicit turn(record_file& file) : file_(&file), news_(file.begin_turn()) {}
    ~turn() { file_->end_turn(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    // Whether others have added something since the last one.
    bool news() const { return news_; }

   private:
    record_file* file_;
    bool news_;
  };

  // Adds one line, in the turn at hand or one of its own, and returns once it is on the disk. Throws
  // append_error.
  void append(const environment& e);
  void append(const record& r);

 private:
  void begin(open_mode how);
  bool begin_turn();
  void end_turn();
  void lock_for_work();
  void wait_for_turn();
  bool read_news();
  void load(const std::string& text, open_mode how);
  void load_line(std::string_view line, std::size_t number);
  void append_line(std::string line);
  bool still_there() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int turns_ = 0;                // one within another
  std::size_t known_bytes_ = 0;  // of the file, read or written
  std::size_t lines_ = 0;
  bool unended_ = false;  // the last line lacks its line break
  std::size_t torn_bytes_ = 0;
  std::vector<record> earlier_;
  std::vector<environment> environments_;
  std::vector<std::size_t> made_in_;
};

// They differ in nothing but their time.
bool same_environment(const environment& a, const environment& b);

// Appends the environment unless the file's last one differs in nothing but its time.
void note_environment(record_file& file, const environment& here);

}  // namespace um
