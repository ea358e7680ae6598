#include "spec/plan/open_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job_texts.h"

namespace tombolo::plan {
namespace {

using ::testing::HasSubstr;

TEST(OpenJob, FixesNothingWhereTheSectionIsLeftOut) {
  const Result<OpenJob> open = parse_open_job(test::kOpenJob, "job.toml");
  ASSERT_TRUE(open) << open.error().text();
  EXPECT_FALSE(open->fixed.tensor || open->fixed.pipeline || open->fixed.data || open->fixed.zero);
  EXPECT_FALSE(open->fixed.micro_batch || open->fixed.recompute || open->fixed.sequence_parallel);
  EXPECT_EQ(open->job.training.global_batch, 64);
}

TEST(OpenJob, FixesNumbersAndSearchesWhatIsCalledAuto) {
  const Result<OpenJob> open = parse_open_job(std::string(test::kOpenJob) + R"(
micro_batch = 2
recompute = "auto"
[parallelism]
tensor = 4
pipeline = "auto"
data = "auto"
zero = 1
sequence_parallel = "auto"
schedule = "auto"
)",
                                              "job.toml");
  ASSERT_TRUE(open) << open.error().text();
  EXPECT_EQ(open->fixed.tensor, 4);
  EXPECT_EQ(open->fixed.zero, 1);
  EXPECT_EQ(open->fixed.micro_batch, 2);
  EXPECT_FALSE(open->fixed.pipeline || open->fixed.data || open->fixed.context);
  EXPECT_FALSE(open->fixed.recompute || open->fixed.sequence_parallel);
  EXPECT_EQ(open->job.parallelism.schedule, layout::ScheduleKind::k1F1B);
}

TEST(OpenJob, StillSaysWhatIsWrongAndWhere) {
  const auto complaint = [](const std::string& more) {
    const Result<OpenJob> open = parse_open_job(test::kOpenJob + more, "job.toml");
    return open ? std::string() : open.error().text();
  };
  EXPECT_THAT(complaint("[parallelism]\ntensor = 0\n"),
              HasSubstr("job.toml:10: parallelism.tensor"));
  EXPECT_THAT(complaint("[parallelism]\ntensor = \"two\"\n"), HasSubstr("parallelism.tensor"));
  EXPECT_THAT(complaint("[parallelism]\ntensro = 2\n"), HasSubstr("try \"tensor\""));
  EXPECT_THAT(complaint("parallelism = 3\n"), HasSubstr("unknown key"));  // inside [training]
}

}  // namespace
}  // namespace tombolo::plan
