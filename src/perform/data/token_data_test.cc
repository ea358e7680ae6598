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

  void set_pipelines(int32_t count) {
    plan_.parallelism.data = count;
    plan_.stages.resize(1);
    plan_.ranks.clear();
    for (int32_t r = 0; r < count; ++r) {
      plan_.ranks.push_back({.rank = r, .datacenter = "here", .replica = r});
    }
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

// Three pipelines of two samples each: those of share 0 are pipelines 0 and 2, share 1 is pipeline
// 1's. Share 0 has 6 windows and shows 4 in an iteration, share 1 has 3 and shows 2.
TEST_F(TokenDataTest, SharesAreReadAtTheirOwnPace) {
  set_pipelines(3);
  plan_.data->shuffle = false;
  plan_.data->share = {{.tokens = {counting("a", 0, 25)}, .datacenters = {}, .pipelines = {0, 2}},
                       {.tokens = {counting("b", 500, 13)}, .datacenters = {}, .pipelines = {1}}};
  const auto of_two = TokenData::open(plan_, 0), of_one = TokenData::open(plan_, 1);
  ASSERT_TRUE(of_two && of_one);
  EXPECT_THAT(of_two->readers(), ElementsAre(0, 2));
  EXPECT_THAT(of_one->readers(), ElementsAre(1));
  // Samples 0 to 5 of the global batch, by the number of the window in its file.
  const auto shown = [&](int64_t iteration) {
    std::vector<int64_t> out;
    for (const int64_t sample : {0, 1}) out.push_back(window(*of_two, iteration, sample)[0] / 4);
    for (const int64_t s : {2, 3}) out.push_back((window(*of_one, iteration, s)[0] - 500) / 4);
    for (const int64_t sample : {4, 5}) out.push_back(window(*of_two, iteration, sample)[0] / 4);
    return out;
  };
  EXPECT_THAT(shown(1), ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_THAT(shown(2), ElementsAre(4, 5, 2, 0, 0, 1));  // both begin their second epoch
  EXPECT_THAT(shown(3), ElementsAre(2, 3, 1, 2, 4, 5));
  EXPECT_THAT(shown(4), ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_DEATH(window(*of_two, 1, 2), "sample 2 is of a pipeline that reads other files");
}

// Share k of n pipelines among C reads as a job of its own would, with n / C of the batch and
// seed + k; so its epochs show every sample once, and a run resumes anywhere.
TEST_F(TokenDataTest, AShareIsReadAsAJobOfItsOwn) {
  set_pipelines(3);
  plan_.data->evaluation_fraction = 0.2;
  const std::vector<std::string> a = {counting("a", 0, 81)}, b = {counting("b", 500, 61)};
  plan_.data->share = {{.tokens = a, .datacenters = {}, .pipelines = {1}},
                       {.tokens = b, .datacenters = {}, .pipelines = {0, 2}}};
  const auto share = TokenData::open(plan_, 2);
  set_pipelines(2);
  plan_.training.global_batch = 4;
  plan_.run.seed += 1;
  plan_.data->share.clear();
  plan_.data->tokens = b;
  const auto alone = TokenData::open(plan_, 1);
  ASSERT_TRUE(share && alone);
  EXPECT_EQ(share->training_samples(), 12);   // of 15
  EXPECT_EQ(share->evaluation_windows(), 2);  // of 3: whole microbatches
  std::set<std::vector<int64_t>> first_epoch;
  for (int64_t iteration = 1; iteration <= 7; ++iteration) {
    for (const auto& [in_share, by_itself] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 1}, {4, 2}, {5, 3}}) {
      const auto shown = window(*share, iteration, in_share);
      EXPECT_EQ(shown, window(*alone, iteration, by_itself));
      if (iteration <= 3) first_epoch.insert(shown);
    }
  }
  EXPECT_EQ(first_epoch.size(), 12u);
  std::vector<int64_t> held_out(5), expected(5);
  ASSERT_TRUE(share->evaluation_window(1, held_out) && alone->evaluation_window(1, expected));
  EXPECT_EQ(held_out, expected);
  EXPECT_EQ(*share->content(0), *alone->content(0));
}

// Share 1 has half of the pipelines, then a quarter of them.
TEST_F(TokenDataTest, AShareGoesOnWhereItWasWhileItsPartOfThePipelinesStays) {
  plan_.training.global_batch = 8;
  plan_.data->shuffle = false;
  const std::vector<std::string> files = {counting("a", 0, 401)};  // 100 windows
  const auto third_iteration = [&](const std::vector<int64_t>& others,
                                   const std::vector<int64_t>& own) {
    set_pipelines(static_cast<int32_t>(others.size() + own.size()));
    plan_.data->share = {{.tokens = files, .datacenters = {}, .pipelines = others},
                         {.tokens = files, .datacenters = {}, .pipelines = own}};
    const auto data = TokenData::open(plan_, static_cast<int32_t>(own.front()));
    EXPECT_TRUE(data);
    std::vector<int64_t> out;
    const int64_t each = 8 / plan_.parallelism.data;
    for (const int64_t pipeline : own) {
      for (int64_t s = pipeline * each; s < (pipeline + 1) * each; ++s)
        out.push_back(window(*data, 3, s).front() / 4);
    }
    return out;
  };
  EXPECT_THAT(third_iteration({0}, {1}), ElementsAre(8, 9, 10, 11));  // after twice four
  EXPECT_THAT(third_iteration({0, 1}, {2, 3}), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(third_iteration({0, 2}, {1, 3}), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(third_iteration({0, 1, 2}, {3}), ElementsAre(4, 5));  // as if it had been twice two
}

// A host has what its own pipelines read. Two shares may have the same files.
TEST_F(TokenDataTest, FilesOfOtherSharesAreNotOpened) {
  set_pipelines(2);
  plan_.training.micro_batch = 1;  // three of them for each
  plan_.data->share = {
      {.tokens = {counting("a", 0, 81)}, .datacenters = {}, .pipelines = {0}},
      {.tokens = {folder_ + "/elsewhere.bin"}, .datacenters = {}, .pipelines = {1}}};
  const auto here = TokenData::open(plan_, 0);
  ASSERT_TRUE(here) << here.error().text();
  const auto there = TokenData::open(plan_, 1);
  ASSERT_FALSE(there);
  EXPECT_THAT(there.error().text(), HasSubstr("elsewhere.bin: cannot open it for reading"));
  EXPECT_THAT(there.error().text(), HasSubstr("while opening data.share[1].tokens"));
  plan_.data->share[1].tokens = plan_.data->share[0].tokens;
  const auto again = TokenData::open(plan_, 1);
  ASSERT_TRUE(again);
  std::vector<int64_t> one, other;  // pipeline 0 has samples 0 to 2, pipeline 1 the others
  for (int64_t s = 0; s < 3; ++s) {
    one.push_back(window(*here, 1, s).front());
    other.push_back(window(*again, 1, 3 + s).front());
  }
  EXPECT_NE(one, other);
  EXPECT_EQ(*here->content(0), *again->content(0));
}

TEST_F(TokenDataTest, RefusesWhatIsTooShortOrBeyondTheVocabulary) {
  plan_.data->tokens = {counting("a", 0, 4)};
  auto data = TokenData::open(plan_);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("a.bin: 4 tokens, one sample takes sequence + 1 = 5"));

  plan_.data->tokens = {counting("a", 0, 41)};
  plan_.data->evaluation_fraction = 0.1;  // one of ten, and a microbatch takes two
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
