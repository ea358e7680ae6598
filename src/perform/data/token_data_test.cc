#include "perform/data/token_data.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "base/file.h"
#include "perform/data/token_index.h"
#include "perform/data/token_writer.h"
#include "support/folder_test.h"

namespace tombolo::data {
namespace {

using plan::TokenFormat;
using plan::TokenType;
using testing::ElementsAre;
using testing::HasSubstr;

class TokenDataTest : public FolderTest {
 protected:
  void SetUp() override {
    plan_.model.sequence = 4;
    plan_.model.vocabulary = 1000;
    plan_.training.global_batch = 6;
    plan_.training.micro_batch = 2;
    plan_.run.steps = 100;
    plan_.data.emplace();
    plan_.data->evaluation_fraction = 0;
  }

  // Ids first, first + 1 ...
  std::string counting(const std::string& name, int64_t first, size_t count) const {
    std::vector<int64_t> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    auto writer =
        TokenWriter::create(folder_ + "/" + name, TokenFormat::kMegatron, TokenType::kInt32);
    EXPECT_TRUE(writer && writer->add(ids) && writer->finish());
    return folder_ + "/" + name + ".bin";
  }

  std::vector<int64_t> window(const TokenData& data, int64_t iteration, int64_t sample) const {
    std::vector<int64_t> out(static_cast<size_t>(plan_.model.sequence) + 1);
    const Status read = data.training_window(iteration, sample, out);
    EXPECT_TRUE(read) << (read ? "" : read.error().text());
    return out;
  }

  plan::Plan plan_;
};

TEST_F(TokenDataTest, WindowsShareOneIdAndGoThroughTheFilesInOrder) {
  // 10 ids: windows at 0 and 4, one id left. 4 ids: none. 9 ids: windows at 0 and 4.
  plan_.data->tokens = {counting("a", 0, 10), counting("b", 100, 4), counting("c", 200, 9)};
  plan_.data->shuffle = false;
  const auto data = TokenData::open(plan_);
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->training_samples(), 4);
  EXPECT_EQ(data->evaluation_windows(), 0);
  EXPECT_THAT(window(*data, 1, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(window(*data, 1, 1), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(window(*data, 1, 2), ElementsAre(200, 201, 202, 203, 204));
  EXPECT_THAT(window(*data, 1, 3), ElementsAre(204, 205, 206, 207, 208));
  EXPECT_THAT(window(*data, 1, 4), ElementsAre(0, 1, 2, 3, 4));  // the second epoch
  EXPECT_THAT(window(*data, 2, 0), ElementsAre(200, 201, 202, 203, 204));
}

TEST_F(TokenDataTest, EveryEpochShowsEverySampleOnceAndResumesAnywhere) {
  plan_.data->tokens = {counting("a", 0, 12 * 4 + 1)};  // 12 samples: an epoch is two iterations
  const auto data = TokenData::open(plan_);
  ASSERT_TRUE(data) << data.error().text();
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 12; ++i) {
      order.push_back(window(*data, 1 + epoch * 2 + i / 6, i % 6).front() / 4);
    }
    orders.push_back(order);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 12u);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  // Nothing but the number of the iteration says where it is, so any other reader agrees.
  plan_.parallelism.data = 3;
  plan_.training.micro_batch = 1;
  plan_.parallelism.pipeline = 2;
  const auto resumed = TokenData::open(plan_);
  for (int64_t sample = 0; sample < 6; ++sample) {
    EXPECT_EQ(window(*resumed, 5, sample), window(*data, 5, sample));
  }
  // By the seed of [run], unless [data] has one.
  const auto order_by = [&](uint64_t run, std::optional<uint64_t> own) {
    plan_.run.seed = run;
    plan_.data->seed = own;
    const auto other = TokenData::open(plan_);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 12; ++i) order.push_back(window(*other, 1 + i / 6, i % 6).front() / 4);
    return order;
  };
  EXPECT_EQ(order_by(1, {}), orders[0]);
  EXPECT_NE(order_by(2, {}), orders[0]);
  EXPECT_EQ(order_by(2, 1), orders[0]);
}

TEST_F(TokenDataTest, TheEndIsHeldOutAndNeverTrainedOn) {
  plan_.data->tokens = {counting("a", 0, 20 * 4 + 1), counting("b", 500, 20 * 4 + 1)};
  plan_.data->evaluation_fraction = 0.25;
  const auto data = TokenData::open(plan_);
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->training_samples(), 30);
  ASSERT_EQ(data->evaluation_windows(), 10);
  std::vector<int64_t> out(5);
  for (int64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(data->evaluation_window(i, out));
    EXPECT_EQ(out.front(), 500 + (10 + i) * 4);
  }
  for (int64_t i = 0; i < 60; ++i) {
    const auto shown = window(*data, 1 + i / 6, i % 6);
    EXPECT_TRUE(shown.back() <= 80 || (shown.front() >= 500 && shown.back() <= 540));
  }
}

TEST_F(TokenDataTest, RefusesWhatIsTooShortOrBeyondTheVocabulary) {
  plan_.data->tokens = {counting("a", 0, 4)};
  auto data = TokenData::open(plan_);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("a.bin: 4 tokens, one sample takes sequence + 1 = 5"));

  plan_.data->tokens = {counting("a", 0, 41)};
  plan_.data->evaluation_fraction = 0.1;  // one of ten, and a micro-batch takes two
  data = TokenData::open(plan_);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("evaluation_fraction = 0"));

  plan_.data->evaluation_fraction = 0;
  plan_.data->shuffle = false;
  plan_.model.vocabulary = 7;
  data = TokenData::open(plan_);
  ASSERT_TRUE(data);
  std::vector<int64_t> out(5);
  const Status read = data->training_window(1, 1, out);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(),
              HasSubstr("a.bin: token 7 (byte 28) is 7, model.vocabulary is 7"));
  EXPECT_THAT(read.error().text(), HasSubstr("while reading sample 1 of iteration 1"));

  plan_.run.steps = INT64_MAX / 2;
  EXPECT_THAT(TokenData::open(plan_).error().text(), HasSubstr("more samples than can be counted"));
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Both formats, 10 GB each and all of it a hole, read here and there: what is resident grows by far
// less than the 64 MiB that are promised, and by less than the pages that were looked at (80 MiB).
TEST_F(TokenDataTest, TenGigabytesCostNoMemory) {
  constexpr int64_t kBytes = 10'000'000'000;
  const std::string bare = folder_ + "/bare.bin", indexed = folder_ + "/indexed.bin";
  for (const std::string& path : {bare, indexed}) {
    std::ofstream(path).flush();
    ASSERT_EQ(truncate(path.c_str(), kBytes), 0);
  }
  const std::vector<int32_t> sizes(100, kBytes / 4 / 100);
  ASSERT_TRUE(write_file(folder_ + "/indexed.idx", token_index_text(TokenType::kInt32, sizes)));
  plan_.model.sequence = 1024;
  plan_.training.global_batch = 1000;
  const int64_t before = resident_bytes();
  plan_.data->tokens = {bare};
  const auto two_bytes = TokenData::open(plan_);
  ASSERT_TRUE(two_bytes) << two_bytes.error().text();
  plan_.data->tokens = {indexed};
  const auto four_bytes = TokenData::open(plan_);
  ASSERT_TRUE(four_bytes) << four_bytes.error().text();
  EXPECT_EQ(four_bytes->training_samples(), (kBytes / 4 - 1) / 1024);
  int64_t most = 0;
  std::vector<int64_t> out(1025);
  for (int64_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE((i % 2 ? two_bytes : four_bytes)->training_window(1 + i / 1000, i % 1000, out));
    ASSERT_EQ(std::count(out.begin(), out.end(), 0), std::ssize(out));
    if (i % 100 == 0) most = std::max(most, resident_bytes() - before);
  }
  EXPECT_LT(most, int64_t{64} << 20);
  RecordProperty("resident_bytes", std::to_string(most));
}

}  // namespace
}  // namespace tombolo::data
