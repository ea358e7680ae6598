#include "perform/state/copy_on_write_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

namespace tombolo::state {
namespace {

constexpr size_t kMega = 1 << 20;

// 10 MiB, nothing, one byte, 3 MiB: of pieces of 4 MiB the third has the ends and beginnings of
// three tensors.
class LentStates : public ::testing::Test {
 protected:
  LentStates() {
    const size_t sizes[] = {10 * kMega, 0, 1, 3 * kMega};
    for (size_t i = 0; i < 4; ++i) {
      kernels::NamedTensor& tensor = tensors_.emplace_back(
          kernels::NamedTensor{fmt::format("{}", i), "U8", {static_cast<int64_t>(sizes[i])}, {}});
      for (size_t at = 0; at < sizes[i]; ++at)
        tensor.bytes.push_back(static_cast<std::byte>((at * 31 + i) >> 3));
      all_.insert(all_.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
  }
  void update() {
    for (kernels::NamedTensor& tensor : tensors_)
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), kNew);
  }
  // What is left of it, appended to `read`.
  static void read_on(CopyOnWriteState& state, kernels::Payload& read) {
    for (auto piece = state.next(); !piece.empty(); piece = state.next())
      read.insert(read.end(), piece.begin(), piece.end());
  }

  static constexpr std::byte kNew{0x77};
  SystemClock clock_;
  std::vector<kernels::NamedTensor> tensors_;
  kernels::Payload all_;
};

TEST_F(LentStates, AreReadOnceFromFrontToBack) {
  CopyOnWriteState state(kernels::views_of(tensors_), clock_);
  ASSERT_EQ(state.shapes().size(), 4u);
  EXPECT_EQ(state.shapes()[3].name, "3");
  kernels::Payload read;
  read_on(state, read);
  EXPECT_EQ(read, all_);
  EXPECT_EQ(state.exposed(), 0);
  EXPECT_TRUE(state.next().empty());
}

TEST_F(LentStates, AreReadAsTheyWereWhateverUpdatesDoOnceTheyAreCopied) {
  for (const int pieces : {0, 1, 2, 3, 4}) {
    std::vector<kernels::NamedTensor> before = tensors_;
    CopyOnWriteState state(kernels::views_of(tensors_), clock_);
    kernels::Payload read;
    for (int i = 0; i < pieces; ++i) {
      const auto piece = state.next();
      read.insert(read.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(state.exposed(), static_cast<int64_t>(all_.size() - read.size()));
    EXPECT_TRUE(state.copy());
    EXPECT_EQ(state.exposed(), 0);
    update();
    EXPECT_TRUE(state.copy()) << "once more, for the next update";
    read_on(state, read);
    EXPECT_EQ(read, all_) << "after " << pieces << " pieces";
    tensors_ = std::move(before);
  }
}

TEST_F(LentStates, KeepAnUpdateWaitingUntilTheyAreRead) {
  CopyOnWriteState state(kernels::views_of(tensors_), clock_);
  std::atomic<bool> nearly = false;
  auto updates = std::async(std::launch::async, [&] {
    state.await_read();
    EXPECT_TRUE(nearly);
    update();
  });
  kernels::Payload read;
  while (read.size() + 4 * kMega < all_.size()) {
    const auto piece = state.next();
    read.insert(read.end(), piece.begin(), piece.end());
  }
  nearly = true;
  read_on(state, read);
  updates.get();
  EXPECT_EQ(read, all_);
}

// As where the disk was full.
TEST_F(LentStates, KeepNobodyWaitingOnceTheyAreClosed) {
  CopyOnWriteState state(kernels::views_of(tensors_), clock_);
  state.next();
  auto updates = std::async(std::launch::async, [&] { state.await_read(); });
  state.close();
  updates.get();
  EXPECT_EQ(state.exposed(), 0);
  EXPECT_TRUE(state.next().empty());
}

TEST_F(LentStates, MayBeEmpty) {
  CopyOnWriteState state({}, clock_);
  state.await_read();
  EXPECT_TRUE(state.copy());
  EXPECT_TRUE(state.next().empty());
}

}  // namespace
}  // namespace tombolo::state
