#include "perform/train/device_stream.h"

#include <cstring>

namespace tombolo::train {
namespace {

class CpuStream final : public DeviceStream {
 public:
  at::Device device() const override { return at::kCPU; }

  at::Tensor upload(std::span<const std::byte> bytes, at::IntArrayRef shape,
                    at::ScalarType type) override {
    at::Tensor tensor = at::empty(shape, at::TensorOptions(type).device(device()));
    CHECK(bytes.size() == tensor.nbytes(), "{} bytes for a tensor of {}", bytes.size(),
          tensor.nbytes());
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

  kernels::Payload download(const at::Tensor& tensor) override {
    const at::Tensor flat = tensor.contiguous();
    const auto* begin = static_cast<const std::byte*>(flat.data_ptr());
    return {begin, begin + flat.nbytes()};
  }

  void finish() override {}
};

}  // namespace

std::unique_ptr<DeviceStream> cpu_stream() { return std::make_unique<CpuStream>(); }

}  // namespace tombolo::train
