// The ocean's disks: a host's can be full for a while. And its wall clocks, which nobody may read.
//
// Files are real ones, in a folder per host, and the code that runs writes them with the calls of
// the C library. A test program that includes this (in one file) brings these calls itself: for
// whoever runs in the ocean they ask the disk of the host first, for everybody else they are what
// they were. So nothing of how files are written is modelled, and no code has a seam for it.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "support/ocean.h"

namespace tombolo::ocean {

struct Disk {
  SimTime full_until;
  int64_t room = 0;          // bytes that still go onto it
  bool takes_names = true;   // new files and folders
  bool tells_late = false;   // write() takes what does not fit, and fsync() says so
  bool is_believed = false;  // a bug that is planted: what does not fit is said to be written
  int64_t refusals = 0;      // how often somebody was told
  std::set<ino_t> lost;      // the files of which some is not there although somebody was told so
};

inline std::map<int, Disk> disks;  // by host
inline int64_t wall_clock_reads = 0;

// The disk of who runs, where it is full now.
inline Disk* full_disk() {
  if (!self) return nullptr;
  const auto at = disks.find(self->process->host);
  if (at == disks.end()) return nullptr;
  return at->second.full_until > self->process->waters->ocean().now() ? &at->second : nullptr;
}

// Its number, of a file; nothing of a pipe or a socket.
inline std::optional<ino_t> file_of(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  return about.st_ino;
}

inline int refuse(Disk& disk) {
  ++disk.refusals;
  errno = ENOSPC;
  return -1;
}

template <typename Call>
Call* of_the_library(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  CHECK(found, "no {}", name);
  return reinterpret_cast<Call*>(found);
}

inline int sync_file(int fd, int (*library)(int)) {
  Disk* disk = full_disk();
  if (disk && !disk->is_believed && disk->tells_late && disk->room <= 0 && file_of(fd))
    return refuse(*disk);
  return library(fd);
}

}  // namespace tombolo::ocean

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  using namespace tombolo::ocean;
  static auto* const library = of_the_library<ssize_t(int, const void*, size_t)>("write");
  Disk* disk = full_disk();
  const auto file = disk && size > 0 ? file_of(fd) : std::nullopt;
  if (!file) return library(fd, bytes, size);
  if (disk->is_believed) disk->lost.insert(*file);
  const bool takes_all = disk->is_believed || disk->tells_late;
  if (!takes_all && disk->room <= 0) return refuse(*disk);
  if (!takes_all) size = std::min(size, static_cast<size_t>(disk->room));
  disk->room -= static_cast<int64_t>(size);
  return library(fd, bytes, size);
}

int fsync(int fd) {
  static auto* const library = tombolo::ocean::of_the_library<int(int)>("fsync");
  return tombolo::ocean::sync_file(fd, library);
}

int fdatasync(int fd) {
  static auto* const library = tombolo::ocean::of_the_library<int(int)>("fdatasync");
  return tombolo::ocean::sync_file(fd, library);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const library = tombolo::ocean::of_the_library<int(const char*, mode_t)>("mkdir");
  tombolo::ocean::Disk* disk = tombolo::ocean::full_disk();
  if (!disk || disk->takes_names || access(path, F_OK) == 0) return library(path, mode);
  return tombolo::ocean::refuse(*disk);
}

int mkostemps(char* path, int suffix, int flags) {
  static auto* const library = tombolo::ocean::of_the_library<int(char*, int, int)>("mkostemps");
  tombolo::ocean::Disk* disk = tombolo::ocean::full_disk();
  if (!disk || disk->takes_names) return library(path, suffix, flags);
  return tombolo::ocean::refuse(*disk);
}

int clock_gettime(clockid_t which, timespec* out) noexcept {
  static auto* const library =
      tombolo::ocean::of_the_library<int(clockid_t, timespec*)>("clock_gettime");
  if (tombolo::ocean::self && which == CLOCK_REALTIME) ++tombolo::ocean::wall_clock_reads;
  return library(which, out);
}
}
