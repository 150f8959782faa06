#include "schedule/notes.hpp"

#include <utility>

namespace um {
namespace {

thread_local note_collector* current_collector = nullptr;
thread_local best_time_listener* current_listener = nullptr;

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

best_time_listener::best_time_listener(std::function<void(nanoseconds)> on_best)
    : on_best_(std::move(on_best)), outer_(current_listener) {
  current_listener = this;
}
best_time_listener::~best_time_listener() {
  current_listener = outer_;
}

void report_best_time(nanoseconds time) {
  if (current_listener != nullptr) current_listener->on_best_(time);
}

}  // namespace um
