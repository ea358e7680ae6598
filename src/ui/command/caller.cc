#include "ui/command/caller.h"

#include <iostream>

namespace tombolo::command {
namespace {
thread_local Caller* caller_here = nullptr;
}  // namespace

Caller* Caller::of_this_thread() { return caller_here; }

Caller::Called::Called(Caller& caller) : before_(caller_here) { caller_here = &caller; }

Caller::Called::~Called() { caller_here = before_; }

void note(const std::string& text) {
  if (caller_here) {
    caller_here->notes.push_back(text);
  } else {
    std::cerr << "note: " << text << "\n";
  }
}

}  // namespace tombolo::command
