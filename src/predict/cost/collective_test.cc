#include "predict/cost/collective.h"

#include <gtest/gtest.h>

namespace tombolo::cost {
namespace {

// 3 ranks, 300 MB, 100 MB/s, 1 ms: four steps of 100 MB / 100 MB/s + 1 ms = 4.004 s.
TEST(RingAllReduce, by_hand) {
  const AllReduce what{.size = 300_MB, .ranks = 3, .rate = BytesPerSecond{100e6}, .latency = 1_ms};
  EXPECT_DOUBLE_EQ(ring_all_reduce(what).value, 4.004);
}

TEST(RingAllReduce, of_one_rank_is_free) {
  EXPECT_EQ(ring_all_reduce({.size = 1_GB, .ranks = 1, .rate = 1_Gbps, .latency = 1_ms}), 0_s);
}

// ASTRA-sim 2.0, table III: what each NPU sends in the first dimension, of k NPUs, for a 1024 MiB
// all-reduce (the caption says all-gather), is 2 x 1024 (k-1)/k: 1024, 1536, 1792 and 1920 MiB.
TEST(RingAllReduce, charges_the_bytes_of_astra_sims_table_three) {
  const std::pair<int64_t, double> published[] = {{2, 1024}, {4, 1536}, {8, 1792}, {16, 1920}};
  for (const auto& [ranks, mebibytes] : published) {
    const AllReduce what{
        .size = 1024_MiB, .ranks = ranks, .rate = BytesPerSecond{1048576}, .latency = 0_s};
    EXPECT_NEAR(ring_all_reduce(what).value, mebibytes, 1e-9) << ranks;
  }
}

TEST(RingAllReduce, RanksPassOnSomething) {
  EXPECT_EQ(ring_all_reduce({.size = 1_GB, .ranks = 1}), 0_s);
  EXPECT_DEATH(ring_all_reduce({.size = 1_GB, .ranks = 4}), "4 ranks pass on 0 B/s");
}

}  // namespace
}  // namespace tombolo::cost
