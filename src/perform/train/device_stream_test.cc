#include "perform/train/device_stream.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tombolo::train {
namespace {

TEST(DeviceStream, BringsBytesThereAndBack) {
  const auto stream = cpu_stream();
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  kernels::Payload bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  const at::Tensor tensor = stream->upload(bytes, {2, 3}, at::kFloat);
  bytes.assign(bytes.size(), std::byte{0});  // the tensor has its own
  EXPECT_EQ(tensor.index({1, 2}).item<float>(), 6);
  const kernels::Payload back = stream->download(tensor);
  ASSERT_EQ(back.size(), numbers.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(back.data(), numbers.data(), back.size()), 0);
}

TEST(DeviceStream, DownloadsRowByRowWhateverLiesInMemory) {
  const auto stream = cpu_stream();
  const at::Tensor turned = at::arange(6, at::kFloat).view({2, 3}).t();  // 0 3, 1 4, 2 5
  const kernels::Payload bytes = stream->download(turned);
  std::vector<float> numbers(6);
  ASSERT_EQ(bytes.size(), numbers.size() * sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(numbers, (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(DeviceStreamDeathTest, RefusesBytesOfAnotherNumber) {
  const auto stream = cpu_stream();
  EXPECT_DEATH(stream->upload(kernels::Payload(23), {2, 3}, at::kFloat),
               "23 bytes for a tensor of 24");
}

}  // namespace
}  // namespace tombolo::train
