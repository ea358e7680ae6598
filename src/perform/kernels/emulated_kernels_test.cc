#include "perform/kernels/emulated_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"
#include "support/virtual_network.h"

namespace tombolo::kernels {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// Every sleep ends 60 us late, as on a plain kernel.
class LateClock : public Clock {
 public:
  SimTime now() const override { return now_; }
  void sleep_until(SimTime instant) override {
    now_ = std::max(now_, instant) + SimDuration{60'000};
  }
  void advance(SimDuration by) { now_ = now_ + by; }

 private:
  SimTime now_;
};

class Emulated : public ::testing::Test {
 protected:
  plan::Plan plan_ = make_test_plan({.forward = "1 ms", .backward = "2 ms"});
};

TEST_F(Emulated, ComputationsTakeAsLongAsThePlanSays) {
  ManualClock clock;
  EmulatedKernels kernels(plan_, 0, clock);
  ASSERT_TRUE(kernels.begin_iteration(1));
  ASSERT_TRUE(kernels.forward(0, 0, {}));
  EXPECT_EQ(clock.now().ns, 1 * kMs);
  ASSERT_TRUE(kernels.backward(0, 0, pattern(payload_bytes(plan_), 1, 0, 0, true)));
  EXPECT_EQ(clock.now().ns, 3 * kMs);
}

TEST_F(Emulated, LatenessDoesNotAddUp) {
  LateClock clock;
  EmulatedKernels kernels(plan_, 0, clock);
  ASSERT_TRUE(kernels.begin_iteration(1));
  for (int64_t m = 0; m < 100; ++m) ASSERT_TRUE(kernels.forward(0, m, {}));
  // 100 x 1 ms, and 60 us once instead of 100 times.
  EXPECT_EQ(clock.now().ns, 100 * kMs + 60'000);
}

TEST_F(Emulated, ABusyMachineIsNotMadeUpForBeyondTenMilliseconds) {
  class Stall : public LateClock {
   public:
    void sleep_until(SimTime instant) override {
      LateClock::sleep_until(instant);
      advance({50 * kMs});
    }
  } clock;
  EmulatedKernels kernels(plan_, 0, clock);
  ASSERT_TRUE(kernels.begin_iteration(1));
  ASSERT_TRUE(kernels.forward(0, 0, {}));  // 1 ms + 60 us + 50 ms
  ASSERT_TRUE(kernels.forward(0, 1, {}));  // due at once: 10 ms of lateness; + 60 us + 50 ms
  EXPECT_EQ(clock.now().ns, (1 + 50 + 50) * kMs + 2 * 60'000);
}

TEST_F(Emulated, TheNextStageGetsWhatThisOneSent) {
  ManualClock clock;
  EmulatedKernels first(plan_, 0, clock, {.check_every_byte = true});
  EmulatedKernels last(plan_, 1, clock, {.check_every_byte = true});
  ASSERT_TRUE(first.begin_iteration(3));
  ASSERT_TRUE(last.begin_iteration(3));
  auto activation = first.forward(0, 1, {});
  ASSERT_TRUE(activation);
  EXPECT_EQ(static_cast<int64_t>(activation->size()), payload_bytes(plan_));
  const auto nothing = last.forward(1, 1, *activation);
  ASSERT_TRUE(nothing) << nothing.error().text();
  EXPECT_TRUE(nothing->empty());
  const auto gradient = last.backward(1, 1, {});
  ASSERT_TRUE(gradient);
  const auto end = first.backward(0, 1, *gradient);
  ASSERT_TRUE(end) << end.error().text();
  EXPECT_TRUE(end->empty());
}

TEST_F(Emulated, AnotherMessageIsNoticed) {
  ManualClock clock;
  EmulatedKernels last(plan_, 1, clock, {.check_every_byte = true});
  ASSERT_TRUE(last.begin_iteration(3));
  const int64_t bytes = payload_bytes(plan_);
  const auto refusal = [&](Payload payload) { return last.forward(1, 1, payload).error().text(); };
  EXPECT_THAT(refusal(pattern(bytes - 1, 3, 1, 0, false)), HasSubstr("65535 bytes instead of"));
  EXPECT_THAT(refusal(pattern(bytes, 3, 0, 0, false)), HasSubstr("differs at byte 0"));
  EXPECT_THAT(refusal(pattern(bytes, 2, 1, 0, false)), HasSubstr("iteration 3, microbatch 1"));
  Payload torn = pattern(bytes, 3, 1, 0, false);
  torn[5000] ^= std::byte{1};
  EXPECT_THAT(refusal(torn), HasSubstr("differs at byte 5000"));
  // The cheap check sees what swaps and truncates, which is what schedules get wrong.
  EmulatedKernels cheap(plan_, 1, clock);
  ASSERT_TRUE(cheap.begin_iteration(3));
  EXPECT_TRUE(cheap.forward(1, 1, torn));
  EXPECT_FALSE(cheap.forward(1, 1, pattern(bytes, 3, 0, 0, false)));
}

// Each sleep ends 60 us late, the next makes up for it: 60 us are kept of 100 waits, while the
// waits themselves were 100 x 60 us late.
TEST_F(Emulated, LatenessIsReported) {
  LateClock clock;
  EmulatedKernels kernels(plan_, 0, clock);
  ASSERT_TRUE(kernels.begin_iteration(1));
  for (int64_t m = 0; m < 100; ++m) ASSERT_TRUE(kernels.forward(0, m, {}));
  ASSERT_TRUE(kernels.lateness());
  EXPECT_EQ(kernels.lateness()->kept.ns, 60'000);
  EXPECT_EQ(kernels.lateness()->sum.ns, 100 * 60'000);
  EXPECT_EQ(kernels.lateness()->waits, 100);
  ASSERT_TRUE(kernels.begin_iteration(2));
  EXPECT_EQ(kernels.lateness()->waits, 0);
}

TEST_F(Emulated, BytesAreDivided) {
  plan::Plan plan = make_test_plan({.replicas = 2, .byte_scale = 16});
  EXPECT_EQ(payload_bytes(plan), 64 * 1024 / 16);
  plan.stages[1].gradients = 1_GB;
  EXPECT_EQ(gradient_bytes(plan, 1), 62'500'000);
  EXPECT_TRUE(check_byte_scale(plan));
}

TEST_F(Emulated, AByteScaleThatCannotBeIsRefused) {
  const auto refusal = [](const plan::Plan& plan) {
    const Status status = check_byte_scale(plan);
    return status ? "" : status.error().text();
  };
  plan::Plan plan = make_test_plan({.replicas = 2, .byte_scale = 128});
  EXPECT_THAT(refusal(plan), HasSubstr("byte_scale = 128 leaves 512 bytes"));
  EXPECT_THAT(refusal(plan), HasSubstr("at most 64"));

  plan.run.byte_scale = 2;
  plan.cluster.datacenters[1].device.kind = cluster::DeviceKind::kCpu;
  EXPECT_THAT(refusal(plan), HasSubstr("byte_scale = 2: rank 2 computes"));
  plan.run.byte_scale = 1;
  EXPECT_EQ(refusal(plan), "");

  // 8 GiB in two chunks of 4 GiB, where 1 GiB can be sent at once.
  plan = make_test_plan({.replicas = 2});
  plan.cost_source = plan::CostSource::kRoofline;
  plan.stages[0].gradients = 8_GiB;
  plan.stages[0].cost.reduce = 1_s;
  EXPECT_THAT(refusal(plan), HasSubstr("try run.byte_scale = 4"));
}

TEST_F(Emulated, AnotherChunkOfGradientsIsNoticed) {
  plan::Plan plan = make_test_plan({.replicas = 2});
  plan.cost_source = plan::CostSource::kRoofline;
  for (plan::Stage& stage : plan.stages) {
    stage.gradients = 1_MB;
    stage.cost.reduce = 1_ms;
  }
  VirtualNetwork network([](int32_t, int32_t) { return link::LinkShape{}; });
  ManualClock clock;
  VirtualMessenger messenger(network, 0, clock), other(network, 1, clock);
  EmulatedKernels kernels(plan, 0, clock);
  ASSERT_TRUE(kernels.join_replicas({.ranks = {0, 1}, .own = 0, .messenger = &messenger}));
  ASSERT_TRUE(kernels.begin_iteration(3));
  ASSERT_TRUE(other.send(0, {3, kReplicaTensor}, Payload(500'000)));
  const Status status = kernels.reduce_gradients(0);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().text(), HasSubstr("chunk of gradients from rank 1"));
  EXPECT_THAT(status.error().text(), HasSubstr("iteration 3, step 0: differs at byte 0"));
}

// 120 MB over two replicas on one node, 300 GBps and 1 us: 2 x (60 MB / 300 GBps + 1 us) = 402 us.
TEST_F(Emulated, GradientsGoAroundARingWhereThePlanGivesItTheTime) {
  plan::Plan plan = make_test_plan({.replicas = 2});
  EXPECT_FALSE(sums_in_a_ring(plan, 0)) << "its time is imagined";
  plan.cost_source = plan::CostSource::kRoofline;
  plan.stages[0].gradients = 120_MB;
  plan.stages[0].cost.reduce = 402_us;
  EXPECT_TRUE(sums_in_a_ring(plan, 0));
  plan.stages[0].cost.reduce = 350_us;
  EXPECT_FALSE(sums_in_a_ring(plan, 0)) << "it would last longer";
  plan.stages[0].cost.reduce = 402_us;
  plan.stages[0].cost.reduce_hidden = 1_us;
  EXPECT_FALSE(sums_in_a_ring(plan, 0)) << "it begins beside a pass";
  plan.stages[0].cost.reduce_hidden = 0_s;
  plan.parallelism.zero = 1;
  EXPECT_FALSE(sums_in_a_ring(plan, 0)) << "parameters move as well";
}

TEST_F(Emulated, WhenASumBeganIsSaidInTwoNumbers) {
  plan::Plan plan = make_test_plan({.replicas = 2, .reduce = "3 ms"});
  VirtualNetwork network([](int32_t, int32_t) { return link::LinkShape{}; });
  ManualClock clock;
  VirtualMessenger messenger(network, 0, clock), other(network, 1, clock);
  EmulatedKernels kernels(plan, 0, clock);
  ASSERT_TRUE(kernels.join_replicas({.ranks = {0, 1}, .own = 0, .messenger = &messenger}));
  ASSERT_TRUE(kernels.begin_iteration(3));
  ASSERT_TRUE(other.send(0, {3, kReplicaTensor}, Payload(8)));
  const Status status = kernels.reduce_gradients(0);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().text(),
              HasSubstr("rank 1 sent 8 bytes where it says when its gradient all-reduce began"));
}

TEST_F(Emulated, EqualReplicasHaveEqualDigests) {
  ManualClock clock;
  EmulatedKernels one(plan_, 0, clock), other(plan_, 0, clock);
  ASSERT_TRUE(one.update(0));
  EXPECT_NE(*one.weights_digest(), *other.weights_digest());
  ASSERT_TRUE(other.update(0));
  EXPECT_EQ(*one.weights_digest(), *other.weights_digest());
}

TEST_F(Emulated, UpdatesSurviveAnotherSplit) {
  ManualClock clock;
  EmulatedKernels first(plan_, 0, clock), last(plan_, 1, clock);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(first.update(0));
    ASSERT_TRUE(last.update(1));
  }
  std::vector<NamedTensor> all = *first.save();
  const std::vector<NamedTensor> rest = *last.save();
  all.insert(all.end(), rest.begin(), rest.end());

  // One stage instead of two holds both layers.
  plan::Plan whole = make_test_plan({.stages = 1});
  whole.stages[0].slice.layers = 2;
  EmulatedKernels one(whole, 0, clock);
  ASSERT_TRUE(one.load(source_of(all)));
  EXPECT_EQ(one.updates(), 5);
  EXPECT_THAT(one.load(source_of(std::span(all).first(1))).error().text(),
              HasSubstr("layers.1.emulated.updates"));
}

// Where it lies, so an update shows; a copy stays as it was.
TEST_F(Emulated, StatesAreSeenAndNotCopied) {
  ManualClock clock;
  EmulatedKernels kernels(plan_, 0, clock);
  const std::vector<TensorView> seen = *kernels.state();
  const std::vector<NamedTensor> copy = *kernels.save();
  const auto count = [](std::span<const std::byte> bytes) {
    int64_t updates = 0;
    std::memcpy(&updates, bytes.data(), sizeof updates);
    return updates;
  };
  ASSERT_TRUE(kernels.update(0));
  ASSERT_EQ(seen.size(), copy.size());
  ASSERT_FALSE(seen.empty());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].name, copy[i].name);
    EXPECT_EQ(seen[i].dtype, copy[i].dtype);
    EXPECT_EQ(seen[i].shape, copy[i].shape);
    EXPECT_EQ(count(seen[i].bytes), 1);
    EXPECT_EQ(count(copy[i].bytes), 0);
  }
}

TEST(EmulatedDeathTest, CallersKnowThePlan) {
  const plan::Plan plan = make_test_plan({.stages = 2});
  ManualClock clock;
  EmulatedKernels kernels(plan, 0, clock);
  EXPECT_DEATH(gradient_bytes(plan, 2), "stage 2 of 2");
  EXPECT_DEATH(static_cast<void>(kernels.update(1)), "stage 1 is not of this rank");
  EXPECT_DEATH(static_cast<void>(kernels.join_replicas({.ranks = {2, 1}, .address = {}})),
               "the 2 replicas are not in the order of their ranks");
}

}  // namespace
}  // namespace tombolo::kernels
