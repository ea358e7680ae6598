#include "perform/state/checkpoint_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <string_view>

#include "base/file.h"
#include "perform/state/state_snapshot.h"
#include "support/folder_test.h"

namespace tombolo::state {
namespace {

using ::testing::HasSubstr;

constexpr size_t kLarge = size_t{9} << 20;  // more than two pieces of a CopyOnWriteState

class CheckpointWriters : public FolderTest {
 protected:
  // Every byte of the state says after how many updates it is.
  void update() {
    const auto now = static_cast<std::byte>(++updates_);
    std::fill(tensor_[0].bytes.begin(), tensor_[0].bytes.end(), now);
  }
  // Of the shard that was written last.
  void expect_written(int64_t step, std::byte updates) {
    const auto file = read_safetensors(step_folder(folder_, step) + "/" + shard_.file);
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_EQ(file->tensors.size(), 1u);
    EXPECT_EQ(file->tensors[0].bytes, kernels::Payload(kLarge, updates));
  }
  CheckpointWriter::Write writing(std::function<void(int64_t step)> before = [](int64_t) {}) {
    return [this, before](int64_t step, CopyOnWriteState& state) -> Result<Shard> {
      before(step);
      shard_ = TRY(write_shard(folder_, step, 0, 1, state));
      return shard_;
    };
  }

  SystemClock clock_;
  int updates_ = 0;
  std::vector<kernels::NamedTensor> tensor_{{"a", "U8", {kLarge}, kernels::Payload(kLarge)}};
  Shard shard_;
};

// The disk takes nothing before three updates are done.
TEST_F(CheckpointWriters, WriteWhatWasThereWhateverUpdatesDo) {
  std::promise<void> go;
  int asked = 0;
  CheckpointWriter writer({.write = writing([&](int64_t) { go.get_future().wait(); }),
                           .report = {},
                           .has_room =
                               [&](int64_t bytes) {
                                 EXPECT_EQ(bytes, static_cast<int64_t>(kLarge));
                                 ++asked;
                                 return true;
                               },
                           .note = [](const std::string& line) { ADD_FAILURE() << line; }},
                          clock_);
  update();
  writer.begin(7, kernels::views_of(tensor_));
  for (int i = 0; i < 3; ++i) {
    writer.before_update();
    update();
  }
  go.set_value();
  ASSERT_TRUE(writer.finish());
  expect_written(7, std::byte{1});
  EXPECT_EQ(asked, 1) << "the copy is made once";
  const auto written = writer.take_written();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].step, 7);
}

// It begins to write when an update waits for it.
TEST_F(CheckpointWriters, KeepUpdatesWaitingWithoutRoomForACopy) {
  std::promise<void> waits;
  std::vector<std::string> notes;
  CheckpointWriter writer({.write = writing([&](int64_t step) {
                             if (step == 7) waits.get_future().wait();
                           }),
                           .report = {},
                           .has_room = [](int64_t) { return false; },
                           .note =
                               [&](const std::string& line) {
                                 notes.push_back(line);
                                 waits.set_value();
                               }},
                          clock_);
  update();
  writer.begin(7, kernels::views_of(tensor_));
  writer.before_update();
  update();
  ASSERT_TRUE(writer.finish());
  expect_written(7, std::byte{1});
  EXPECT_GT(writer.take_written()[0].held.ns, 0);
  writer.begin(8, kernels::views_of(tensor_));
  writer.before_update();
  update();
  ASSERT_TRUE(writer.finish());
  expect_written(8, std::byte{2});
  ASSERT_EQ(notes.size(), 1u) << "once";
  EXPECT_THAT(notes[0], HasSubstr("no room for a copy of the 9.44 MB that are left of step 7"));
}

TEST_F(CheckpointWriters, CopyNothingThatIsRead) {
  std::promise<void> read, go;
  CheckpointWriter writer({.write = [&](int64_t, CopyOnWriteState& state) -> Result<Shard> {
                             while (!state.next().empty()) {
                             }
                             read.set_value();
                             go.get_future().wait();
                             return Shard{.file = "shard"};
                           },
                           .report = {},
                           .has_room =
                               [](int64_t bytes) {
                                 ADD_FAILURE() << bytes;
                                 return true;
                               },
                           .note = {}},
                          clock_);
  writer.begin(7, kernels::views_of(tensor_));
  read.get_future().wait();
  writer.before_update();
  EXPECT_TRUE(writer.check()) << "it is under way";
  go.set_value();
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(writer.take_written()[0].held.ns, 0);
  writer.before_update();  // nothing is under way
}

TEST_F(CheckpointWriters, ThatFailKeepNoUpdateWaiting) {
  std::promise<void> waits;
  CheckpointWriter writer({.write = [&](int64_t, CopyOnWriteState&) -> Result<Shard> {
                             waits.get_future().wait();
                             return unusable("the disk is full", "another one");
                           },
                           .report = {},
                           .has_room = [](int64_t) { return false; },
                           .note = [&](const std::string&) { waits.set_value(); }},
                          clock_);
  writer.begin(7, kernels::views_of(tensor_));
  writer.before_update();
  const Status end = writer.finish();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().message, "the disk is full");
  EXPECT_TRUE(writer.finish()) << "once";
}

// --- how much memory ------------------------------------------------------------------------------

// ThreadSanitizer keeps a shadow, four times as large, of all that is read.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TOMBOLO_HAS_SHADOWS 1
#endif
#endif
#ifndef TOMBOLO_HAS_SHADOWS

// Kernels with a state only. Functions that the test does not call are not implemented.
class LargeKernels : public kernels::Kernels {
 public:
  explicit LargeKernels(size_t bytes)
      : tensors_{
            {"a", "U8", {static_cast<int64_t>(bytes)}, kernels::Payload(bytes, std::byte{1})}} {}
  Result<std::vector<kernels::TensorView>> state() const override {
    return kernels::views_of(tensors_);
  }

  Status join_replicas(const kernels::Replicas&) override { return {}; }
  Status begin_iteration(int64_t) override { return {}; }
  Result<kernels::Payload> forward(int32_t, int64_t, kernels::Payload) override {
    return kernels::Payload{};
  }
  Status recompute(int32_t, int64_t) override { return {}; }
  Result<kernels::Payload> backward(int32_t, int64_t, kernels::Payload) override {
    return kernels::Payload{};
  }
  Result<kernels::Payload> backward_input(int32_t, int64_t, kernels::Payload) override {
    return kernels::Payload{};
  }
  Status backward_weight(int32_t, int64_t) override { return {}; }
  Status reduce_gradients(int32_t) override { return {}; }
  Status update(int32_t) override { return {}; }
  std::optional<double> loss() const override { return std::nullopt; }
  int64_t evaluation_batches() const override { return 0; }
  Result<kernels::Payload> evaluate(int32_t, int64_t, kernels::Payload) override {
    return kernels::Payload{};
  }
  std::optional<double> evaluation_loss() const override { return std::nullopt; }
  Result<std::string> weights_digest() const override { return std::string(); }
  Status load(const kernels::TensorSource&) override { return {}; }

 private:
  std::vector<kernels::NamedTensor> tensors_;
};

// How much larger this process was at its largest, while it did that, than before. Nothing where
// the kernel does not count.
std::optional<int64_t> growth(const std::function<void()>& doing) {
  const auto kilobytes = [](std::string_view word) -> int64_t {
    const std::string text = read_file("/proc/self/status").value_or("");
    const size_t at = text.find(word);
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + word.size()));
  };
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  const bool counts = fd >= 0 && write(fd, "5", 1) == 1;  // forgets how large it was
  if (fd >= 0) close(fd);
  if (!counts || kilobytes("VmHWM:") == 0) return std::nullopt;
  const int64_t before = kilobytes("VmRSS:");
  doing();
  return (kilobytes("VmHWM:") - before) * 1024;
}

TEST_F(CheckpointWriters, NeedNoMemoryForAState) {
  const size_t large = size_t{128} << 20;
  const LargeKernels kernels(large);
  const auto grown = growth([&] {
    CheckpointWriter writer(
        {.write = writing(), .report = {}, .has_room = [](int64_t) { return false; }, .note = {}},
        clock_);
    writer.begin(3, *kernels.state());
    writer.before_update();
    ASSERT_TRUE(writer.finish());
  });
  if (!grown) GTEST_SKIP() << "the kernel does not say how large a process was";
  EXPECT_LT(*grown, static_cast<int64_t>(large / 4)) << "a piece, buffers, threads";
  EXPECT_EQ(shard_.tensors[0].bytes, static_cast<int64_t>(large));
}

TEST_F(CheckpointWriters, KeptStatesAreOneCopyHoweverOftenItIsMade) {
  const size_t large = size_t{128} << 20;
  const LargeKernels kernels(large);
  const auto grown = growth([&] {
    StateSnapshot kept(at("kept"), 0, 1, 5);
    for (int64_t step = 5; step < 8; ++step) {
      ASSERT_TRUE(kept.copy(step, kernels));
      kept.updated(step + 1);
    }
    ASSERT_TRUE(kept.leave(kernels));
  });
  if (!grown) GTEST_SKIP() << "the kernel does not say how large a process was";
  EXPECT_GT(*grown, static_cast<int64_t>(large / 2));
  EXPECT_LT(*grown, static_cast<int64_t>(large + large / 4));
}

#endif  // TOMBOLO_HAS_SHADOWS

}  // namespace
}  // namespace tombolo::state
