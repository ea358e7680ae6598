// A network namespace without a name: it lives as long as a descriptor of it is open or a process
// is inside, so it and its devices disappear when its owner is killed.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace tombolo::islands {

// A file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

class NetworkNamespace {
 public:
  static Result<NetworkNamespace> create();

  int descriptor() const { return fd_.get(); }
  // For setns() and `ip link ... netns`, by any process that sees this one's /proc.
  std::string path() const;

  // Runs `work` with the calling thread inside; the thread returns to its old namespace afterwards.
  Status inside(const std::function<Status()>& work) const;

 private:
  explicit NetworkNamespace(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

// Runs `ip -batch` (iproute2) with one command per line in the namespace of the calling thread; its
// first error message becomes the Error.
Status run_ip(const std::string& commands);

// Runs a program and waits for it; returns its captured output and wait status.
struct ProgramResult {
  int status = 0;
  std::string output;  // both streams
};
Result<ProgramResult> run_program(const std::vector<std::string>& command,
                                  const std::string& input = {});

}  // namespace tombolo::islands
