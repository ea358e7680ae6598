#include "perform/train/byte_data.h"

#include <gmock/gmock.h>

#include <set>

#include "support/tiny_plan.h"

namespace tombolo::train {
namespace {

using testing::HasSubstr;

TEST(ByteData, DrawsTheSameWindowsForEverySplit) {
  const auto whole = ByteData::open(tiny_plan(1));
  const auto split = ByteData::open(tiny_plan(2));
  ASSERT_TRUE(whole && split);
  std::set<std::string> seen;
  for (int64_t iteration = 1; iteration <= 3; ++iteration) {
    for (int64_t sample = 0; sample < 8; ++sample) {
      const auto a = whole->training_window(iteration, sample);
      const auto b = split->training_window(iteration, sample);
      ASSERT_EQ(a.size(), 33u);  // sequence + 1
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      seen.insert(std::string(a.begin(), a.end()));
    }
  }
  EXPECT_GT(seen.size(), 20u);  // 24 draws from 18,000 places
}

TEST(ByteData, NeverTrainsOnWhatIsHeldOut) {
  // Training bytes are 'a', held-out bytes 'b': 100 bytes, 40 % held out.
  plan::Plan plan = tiny_plan(1);
  plan.model.sequence = 8;
  plan.data->evaluation_fraction = 0.4;
  const auto data = ByteData::make(std::string(60, 'a') + std::string(40, 'b'), "ab.txt", plan);
  ASSERT_TRUE(data);
  for (int64_t sample = 0; sample < 500; ++sample) {
    for (const uint8_t byte : data->training_window(1, sample)) ASSERT_EQ(byte, 'a');
  }
  // (40 - 1) / 8 = 4 windows of 8 tokens: two microbatches of two.
  ASSERT_EQ(data->evaluation_windows(), 4);
  for (int64_t window = 0; window < 4; ++window) {
    for (const uint8_t byte : data->evaluation_window(window)) ASSERT_EQ(byte, 'b');
  }
}

TEST(ByteData, SpreadsABoundedNumberOfEvaluationWindowsWithoutOverlap) {
  plan::Plan plan = tiny_plan(1);
  plan.model.sequence = 8;
  plan.data->evaluation_fraction = 0.5;
  const auto data = ByteData::make(made_up_text(100'000), "long.txt", plan);
  ASSERT_TRUE(data);
  ASSERT_EQ(data->evaluation_windows(), ByteData::kEvaluationWindowsMax);
  for (int64_t i = 1; i < data->evaluation_windows(); ++i) {
    EXPECT_GE(data->evaluation_window(i).data() - data->evaluation_window(i - 1).data(), 8);
  }
  // Possible: 49,999 / 8 = 6,249; every 24th of them is taken, so the last starts near the end.
  const auto* first = data->evaluation_window(0).data();
  EXPECT_EQ(data->evaluation_window(255).data() - first, 255 * 24 * 8);
}

TEST(ByteData, RefusesWhatCannotBeReadOrIsTooShort) {
  plan::Plan plan = tiny_plan(1);
  plan.data->text = "/no/such/text";
  auto data = ByteData::open(plan);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(data.error().text(), HasSubstr("/no/such/text"));

  data = ByteData::make("short", "short.txt", plan);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("short.txt: 5 bytes of 5 are for training"));

  data = ByteData::make(made_up_text(200), "little.txt", plan);  // 20 held out, 65 needed
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("evaluation_fraction = 0"));
  plan.data->evaluation_fraction = 0;
  data = ByteData::make(made_up_text(200), "little.txt", plan);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->evaluation_windows(), 0);

  plan.model.vocabulary = 100;
  data = ByteData::make(made_up_text(20'000), "text.txt", plan);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("vocabulary = 100"));

  plan.data.reset();
  data = ByteData::open(plan);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), HasSubstr("--data FILE"));
}

}  // namespace
}  // namespace tombolo::train
