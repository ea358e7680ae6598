// Reads a checkpoint one tensor at a time: no more than what is asked for, and each once.
//
// Shards on this host are read from its own disk, tensor by tensor; other shards are fetched from
// another host, in pieces. Either way the digest is that of the manifest, or nothing is returned.
// Memory: the tensor that is returned. Not for several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "perform/kernels/kernels.h"
#include "perform/state/checkpoint.h"

namespace tombolo::state {

// Bytes of a shard that another host has: exactly `bytes` of them, or an error.
using FetchPart =
    std::function<Result<kernels::Payload>(const Shard& shard, int64_t offset, int64_t bytes)>;

class StateReader {
 public:
  // `fetch` left out: what is not here is missing. The checkpoint outlives the reader.
  explicit StateReader(const FoundCheckpoint& checkpoint, FetchPart fetch = {});

  // Unusable where the checkpoint has no such tensor, where its shard is missing or has another
  // size, or where its bytes are not those that were written; the message names the file.
  Result<kernels::NamedTensor> read(const std::string& name);

  // All of them. Cost: the whole checkpoint lies in memory.
  Result<std::vector<kernels::NamedTensor>> read_all();

  // The last tensor asked for is damaged, as far as can be seen from here: its bytes are missing, or
  // are not those that were written. An older checkpoint may be whole.
  bool damaged() const { return damaged_; }

  // So far, from this host's disk and from other hosts.
  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_fetched() const { return bytes_fetched_; }

 private:
  Result<kernels::Payload> bytes_of(const Shard& shard, const TensorPlace& place);
  Result<kernels::Payload> bytes_here(const Shard& shard, const TensorPlace& place);
  bool is_here(const Shard& shard);

  const FoundCheckpoint& checkpoint_;
  const FetchPart fetch_;
  std::map<std::string, std::pair<const Shard*, const TensorPlace*>, std::less<>> places_;
  std::map<const Shard*, bool> here_;
  bool damaged_ = false;
  int64_t bytes_read_ = 0;
  int64_t bytes_fetched_ = 0;
};

}  // namespace tombolo::state
