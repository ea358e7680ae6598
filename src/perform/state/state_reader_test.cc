#include "perform/state/state_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "perform/kernels/emulated_kernels.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

kernels::NamedTensor block(const std::string& name, size_t bytes, int fill) {
  return {name,
          "U8",
          {static_cast<int64_t>(bytes)},
          kernels::Payload(bytes, static_cast<std::byte>(fill))};
}

// Four ranks, eight tensors of 10,000 bytes each. `here` is a host's folder, `there` another's.
class StateReading : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::string* folder : {&here_, &there_}) {
      *folder = (fs::temp_directory_path() / "state.XXXXXX").string();
      ASSERT_TRUE(mkdtemp(folder->data()));
    }
    for (int32_t rank = 0; rank < 4; ++rank) {
      std::vector<kernels::NamedTensor> tensors;
      for (int i = 0; i < 8; ++i) tensors.push_back(block(name(rank, i), 10'000, 8 * rank + i));
      const auto shard = write_shard(here_, 5, rank, 1, tensors);
      ASSERT_TRUE(shard) << shard.error().text();
      checkpoint_.manifest.shards.push_back(*shard);
    }
    checkpoint_.folder = step_folder(here_, 5);
  }
  void TearDown() override {
    fs::remove_all(here_);
    fs::remove_all(there_);
  }
  static std::string name(int32_t rank, int i) { return fmt::format("rank.{}.{}", rank, i); }
  // A shard goes where this host cannot see it.
  void move_away(size_t shard) {
    const std::string& file = checkpoint_.manifest.shards[shard].file;
    fs::rename(checkpoint_.folder + "/" + file, there_ + "/" + file);
  }
  FetchPart from_there() {
    return [this](const Shard& shard, int64_t offset, int64_t bytes) -> Result<kernels::Payload> {
      ++fetches_;
      kernels::Payload out(static_cast<size_t>(bytes));
      TRY(read_part(there_ + "/" + shard.file, offset, out));
      return out;
    };
  }

  FoundCheckpoint checkpoint_;
  std::string here_, there_;
  int fetches_ = 0;
};

// What a rank needs is 80,000 bytes of 320,000.
TEST_F(StateReading, ReadsWhatIsAskedForAndNoMore) {
  StateReader reader(checkpoint_);
  for (int i = 0; i < 8; ++i) {
    const auto tensor = reader.read(name(2, i));
    ASSERT_TRUE(tensor) << tensor.error().text();
    EXPECT_EQ(*tensor, block(name(2, i), 10'000, 16 + i));
  }
  EXPECT_EQ(reader.bytes_read(), 80'000);
  EXPECT_EQ(reader.bytes_fetched(), 0);
}

TEST_F(StateReading, FetchesWhatThisHostLacks) {
  move_away(1);
  StateReader alone(checkpoint_);
  EXPECT_THAT(alone.read(name(1, 0)).error().text(), HasSubstr("cannot be read"));
  StateReader reader(checkpoint_, from_there());
  EXPECT_EQ(reader.read(name(1, 3))->bytes, block("", 10'000, 11).bytes);
  EXPECT_EQ(reader.bytes_fetched(), 10'000);
  EXPECT_TRUE(reader.read(name(0, 3)));
  EXPECT_EQ(fetches_, 1) << "what is here is not fetched";
}

TEST_F(StateReading, DamageIsNamedWhereverItIs) {
  move_away(1);
  const std::string file = checkpoint_.manifest.shards[1].file;
  std::string bytes = *read_file(there_ + "/" + file);
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file(there_ + "/" + file, bytes));
  StateReader reader(checkpoint_, from_there());
  const auto damaged = reader.read(name(1, 7));
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().text(), HasSubstr(file + ": the shard is damaged: the bytes"));
  EXPECT_TRUE(reader.read(name(1, 6))) << "the others are whole";
  EXPECT_THAT(reader.read("nobody's").error().text(), HasSubstr("lacks the tensor nobody's"));
}

// One that is torn here may be whole elsewhere.
TEST_F(StateReading, ATornShardIsFetched) {
  const std::string file = checkpoint_.manifest.shards[3].file;
  fs::copy(checkpoint_.folder + "/" + file, there_ + "/" + file);
  fs::resize_file(checkpoint_.folder + "/" + file, 100);
  EXPECT_THAT(StateReader(checkpoint_).read(name(3, 1)).error().text(), HasSubstr("it has 100"));
  StateReader reader(checkpoint_, from_there());
  EXPECT_TRUE(reader.read(name(3, 1)));
}

// Kernels ask for their own: of two stages each reads its half.
TEST(StateReadingKernels, ReadOnlyTheirStage) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  std::string folder = (fs::temp_directory_path() / "state.XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  ManualClock clock;
  FoundCheckpoint found{step_folder(folder, 3), {}};
  int64_t all = 0;
  for (int32_t rank = 0; rank < 2; ++rank) {
    kernels::EmulatedKernels kernels(plan, rank, clock);
    const auto tensors = *kernels.save();
    for (const kernels::NamedTensor& tensor : tensors)
      all += static_cast<int64_t>(tensor.bytes.size());
    found.manifest.shards.push_back(*write_shard(folder, 3, rank, 1, tensors));
  }
  int64_t read = 0;
  for (int32_t rank = 0; rank < 2; ++rank) {
    kernels::EmulatedKernels kernels(plan, rank, clock);
    StateReader reader(found);
    ASSERT_TRUE(kernels.load([&](const std::string& name) { return reader.read(name); }));
    EXPECT_LT(reader.bytes_read(), all);
    read += reader.bytes_read();
  }
  EXPECT_EQ(read, all);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tombolo::state
