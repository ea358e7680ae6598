// The order in which a device executes work, and the copies between its tensors and messages.
//
// On a CPU a call returns when its work is done. An accelerator queues work on a stream, and the
// host continues: what it uploads is there for everything queued later, and what it downloads was
// computed by everything queued before. Kernels convert between messages and tensors only here, so
// a stage on another device needs another stream and no other kernels.
//
// One thread uses a stream. Cost: one copy of the bytes each way.
#pragma once

#include <memory>
#include <span>

#include "perform/kernels/kernels.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  virtual at::Device device() const = 0;

  // A tensor on the device, row-major, of as many bytes as the shape says (CHECKed). `bytes` may go
  // when this returns.
  virtual at::Tensor upload(std::span<const std::byte> bytes, at::IntArrayRef shape,
                            at::ScalarType type) = 0;

  // The tensor's values, row-major, when all that was queued before is done.
  virtual kernels::Payload download(const at::Tensor& tensor) = 0;

  // Returns when all that was queued is done: before a clock is read, or other threads read memory.
  virtual void finish() = 0;
};

// For a device that executes every call before it returns.
std::unique_ptr<DeviceStream> cpu_stream();

}  // namespace tombolo::train
