// What the datacenters send each other of a group instead of its gradient: an update of each, as bytes
// that they alone understand. GroupSum sends them and hears them.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "perform/link/message.h"

namespace tombolo::exchange {

class DatacenterUpdates {
 public:
  virtual ~DatacenterUpdates() = default;
  // The update of a datacenter as bytes: the own one, which a leader makes at the first call, or one
  // that came.
  virtual Result<link::Payload> give(size_t datacenter) = 0;
  // Fails where the bytes are no update of this group.
  virtual Status take(size_t datacenter, const link::Payload& update) = 0;
};

}  // namespace tombolo::exchange
