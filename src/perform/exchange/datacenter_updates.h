// What the datacenters send each other of a group instead of its gradient: an update of each, as bytes
// that only the implementation understands. GroupSum sends and receives them.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "perform/link/message.h"

namespace tombolo::exchange {

class DatacenterUpdates {
 public:
  virtual ~DatacenterUpdates() = default;
  // The update of a datacenter as bytes: this one's own, which a leader makes at the first call, or
  // one that was received.
  virtual Result<link::Payload> give(size_t datacenter) = 0;
  // Fails if the bytes are not an update of this group.
  virtual Status take(size_t datacenter, const link::Payload& update) = 0;
};

}  // namespace tombolo::exchange
