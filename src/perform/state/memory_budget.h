// May a rank take memory that it could do without?
//
// A copy of the state saves time: a slow disk does not stop training, and a lost rank costs an
// iteration instead of the way back to a checkpoint. It is not worth a host that runs out of memory
// and kills a process. So a rank copies what fits into half of the memory that its host can still
// give, divided by the ranks that may ask at the same time; the other half is for other processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tombolo::state {

// Bytes that this host can still give without swapping (MemAvailable of /proc/meminfo), or less
// where a control group (version 2) of this process, or one above it, allows less. Nothing where
// the system does not say. `root`: a folder in place of "/", for tests.
std::optional<int64_t> memory_available(const std::string& root = "");

// Whether a rank may take this many bytes now.
using Room = std::function<bool(int64_t bytes)>;

// `ranks`: how many share this host. If the available memory is not known, there is room.
Room half_of_the_host(int64_t ranks, std::function<std::optional<int64_t>()> available);

}  // namespace tombolo::state
