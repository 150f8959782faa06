#include "schedule/notes.hpp"

namespace um {
namespace {

thread_local note_collector* current_collector = nullptr;

}  // namespace

note_collector::note_collector() : outer_(current_collector) {
  current_collector = this;
}
note_collector::~note_collector() {
  current_collector = outer_;
}

void add_note(const std::string& line) {
  if (current_collector != nullptr) current_collector->lines.push_back(line);
}

}  // namespace um
