// Checkpoints read by Plans with other datacenters or another [exchange]: what takes the place of what is
// not there, by hand-computed numbers and by state that emulated kernels wrote.
#include "perform/state/resharded_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "perform/kernels/emulated_kernels.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

using plan::ExchangeMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Number>
kernels::NamedTensor tensor(const std::string& name, const std::string& dtype,
                            const std::vector<Number>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {name, dtype, {std::ssize(numbers)}, kernels::Payload(bytes.begin(), bytes.end())};
}
kernels::NamedTensor floats(const std::string& name, const std::vector<float>& numbers) {
  return tensor(name, "F32", numbers);
}

// A pipeline in each of this many datacenters: oregon, paris, tokyo.
plan::Plan plan_of(int datacenters, const plan::Exchange& exchange) {
  plan::Plan plan = make_test_plan(
      {.stages = 1, .replicas = datacenters, .ring = datacenters > 2, .apart = true});
  plan.exchange = exchange;
  return plan;
}

class Fitted {
 public:
  Fitted(const plan::Plan& plan, int32_t rank, std::vector<kernels::NamedTensor> tensors)
      : plan_(plan),
        tensors_(std::move(tensors)),
        state_(plan_, rank, shapes(), kernels::source_of(tensors_)) {}

  template <class Number = float>
  std::vector<Number> read(const std::string& name) {
    const auto found = state_.read(name);
    CHECK(found.has_value(), "{}", found.error().text());
    EXPECT_EQ(found->name, name);
    std::vector<Number> out(found->bytes.size() / sizeof(Number));
    std::memcpy(out.data(), found->bytes.data(), found->bytes.size());
    return out;
  }
  ReshardedState& state() { return state_; }

 private:
  TensorShapes shapes() const {
    TensorShapes out;
    for (const kernels::NamedTensor& each : tensors_) out.emplace(each.name, each.shape);
    return out;
  }
  const plan::Plan plan_;
  const std::vector<kernels::NamedTensor> tensors_;
  ReshardedState state_;
};

TEST(ReshardedState, WhatADatacenterThatLeftHadNotSentTheFirstOneSends) {
  const plan::Exchange sparse{.mode = ExchangeMode::kSparse};
  const std::vector<kernels::NamedTensor> three = {
      floats("w", {1, 2}), floats("w.residual.oregon", {0.5, 0}),
      floats("w.residual.paris", {0.25, -1}), floats("w.residual.tokyo", {4, 8})};
  Fitted first(plan_of(2, sparse), 0, three), second(plan_of(2, sparse), 1, three);
  EXPECT_THAT(first.read("w.residual.oregon"), ElementsAre(4.5, 8));
  EXPECT_THAT(second.read("w.residual.paris"), ElementsAre(0.25, -1));
  EXPECT_THAT(first.state().notes(),
              ElementsAre("what tokyo had not sent is added to what oregon has to send"));
  EXPECT_THAT(second.state().notes(), IsEmpty());
  // The same datacenters, and one more.
  Fitted same(plan_of(3, sparse), 0, three);
  EXPECT_THAT(same.read("w.residual.oregon"), ElementsAre(0.5, 0));
  const std::vector<kernels::NamedTensor> two(three.begin(), three.begin() + 3);
  Fitted came(plan_of(3, sparse), 2, two);
  EXPECT_THAT(came.read("w.residual.tokyo"), ElementsAre(0, 0));
  EXPECT_THAT(came.read("w"), ElementsAre(1, 2));
}

TEST(ReshardedState, ADenseRunGoesOnSparsely) {
  const std::vector<kernels::NamedTensor> dense = {floats("w", std::vector<float>(33)),
                                                   tensor<int64_t>("w.adam.step", "I64", {7})};
  Fitted sparse(plan_of(2, {.mode = ExchangeMode::kSparse}), 1, dense);
  EXPECT_THAT(sparse.read("w.residual.paris"), ::testing::Each(0));
  EXPECT_THAT(sparse.read<uint32_t>("w.adam.last_steps"), ElementsAre(7, 7, 7));
  EXPECT_THAT(sparse.state().read("w.adam.second_moment").error().text(),
              HasSubstr("second_moment"));
  EXPECT_THAT(sparse.state().read("v.residual.paris").error().text(),
              HasSubstr("v.residual.paris"));
}

TEST(ReshardedState, ADatacenterThatComesBeginsWhereTheFirstOneIs) {
  const plan::Exchange local{.mode = ExchangeMode::kLocal};
  const std::vector<kernels::NamedTensor> two = {floats("w", {1, 2}),
                                                 floats("w.in.paris", {3, 4}),
                                                 floats("w.adam.first_moment", {5, 6}),
                                                 floats("w.adam.first_moment.in.paris", {7, 8}),
                                                 floats("w.outer.anchor", {9, 10}),
                                                 floats("w.outer.momentum", {11, 12})};
  Fitted third(plan_of(3, local), 2, two), second(plan_of(3, local), 1, two);
  EXPECT_THAT(second.read("w.in.paris"), ElementsAre(3, 4));
  EXPECT_THAT(third.read("w.in.tokyo"), ElementsAre(1, 2));
  EXPECT_THAT(third.read("w.adam.first_moment.in.tokyo"), ElementsAre(5, 6));
  EXPECT_THAT(third.read("w.outer.anchor"), ElementsAre(9, 10));
  EXPECT_THAT(third.state().notes(),
              ElementsAre("tokyo begins where the checkpoint's first datacenter is"));
}

TEST(ReshardedState, WithoutOuterStepsParametersAreTheAnchor) {
  const plan::Exchange local{.mode = ExchangeMode::kLocal, .delay = 3};
  Fitted dense(plan_of(2, local), 1, {floats("w", {1, 2})});
  EXPECT_THAT(dense.read("w.in.paris"), ElementsAre(1, 2));
  EXPECT_THAT(dense.read("w.outer.anchor"), ElementsAre(1, 2));
  EXPECT_THAT(dense.read("w.outer.momentum"), ElementsAre(0, 0));
  EXPECT_THAT(dense.read("w.outer.arrived"), ElementsAre(0, 0));
  Fitted undelayed(plan_of(2, local), 1, {floats("w", {1, 2}), floats("w.outer.anchor", {4, 1})});
  EXPECT_THAT(undelayed.read("w.outer.arrived"), ElementsAre(3, -1));
}

TEST(ReshardedState, SaysThatResidualsAreLostWhereNobodySendsThem) {
  Fitted dense(plan_of(2, {}), 0, {floats("w", {1}), floats("w.residual.oregon", {2})});
  EXPECT_THAT(dense.read("w"), ElementsAre(1));
  EXPECT_THAT(dense.state().notes(), ElementsAre(HasSubstr("had not sent is lost")));
}

// The datacenters of a Plan in another order: each has its own parameters.
TEST(ReshardedState, TheFirstDatacenterMayBeAnother) {
  plan::Plan plan = plan_of(2, {.mode = ExchangeMode::kLocal});
  std::swap(plan.ranks[0].datacenter, plan.ranks[1].datacenter);
  const std::vector<kernels::NamedTensor> two = {floats("w", {1, 2}), floats("w.in.paris", {3, 4})};
  Fitted paris(plan, 0, two), oregon(plan, 1, two);
  EXPECT_THAT(paris.read("w"), ElementsAre(3, 4));
  EXPECT_THAT(oregon.read("w.in.oregon"), ElementsAre(1, 2));
}

TEST(ReshardedState, AShardMayStayWithWhoLeft) {
  const plan::Plan plan = plan_of(2, {.mode = ExchangeMode::kSparseLocal});
  const auto shard = [](const std::vector<std::string>& names) {
    Shard out;
    for (const std::string& name : names) out.tensors.push_back({.name = name});
    return out;
  };
  EXPECT_TRUE(
      is_left_behind(shard({"w.residual.tokyo", "w.in.tokyo", "w.adam.step.in.tokyo"}), plan));
  EXPECT_FALSE(is_left_behind(shard({"w.residual.tokyo", "w"}), plan));
  EXPECT_FALSE(is_left_behind(shard({"w.residual.paris"}), plan));
}

// What kernels of one Plan wrote those of another read, whatever its mode and datacenters.
TEST(ReshardedState, KernelsOfEveryModeReadThoseOfAll) {
  const std::vector<std::optional<plan::Exchange>> modes = {
      std::nullopt, plan::Exchange{.mode = ExchangeMode::kSparse},
      plan::Exchange{.mode = ExchangeMode::kLocal, .steps = 4, .delay = 2},
      plan::Exchange{.mode = ExchangeMode::kSparseLocal, .steps = 4}};
  SystemClock clock;
  int64_t read = 0;
  for (const auto& from : modes) {
    for (const int before : {2, 3}) {
      plan::Plan wrote = plan_of(before, {});
      wrote.exchange = from;
      std::vector<kernels::NamedTensor> state;
      for (const layout::Placement& place : wrote.ranks) {
        if (!writes_shard(wrote, place.rank)) continue;
        kernels::EmulatedKernels kernels(wrote, place.rank, clock);
        auto part = kernels.save();
        ASSERT_TRUE(part) << part.error().text();
        for (kernels::NamedTensor& each : *part) state.push_back(std::move(each));
      }
      TensorShapes shapes;
      for (const kernels::NamedTensor& each : state) shapes.emplace(each.name, each.shape);
      for (const auto& to : modes) {
        // Emulated kernels have parameters only if the exchange keeps something in addition to them.
        if (to && !from) continue;
        for (const int after : {2, 3}) {
          plan::Plan reads = plan_of(after, {});
          reads.exchange = to;
          for (const layout::Placement& place : reads.ranks) {
            ReshardedState fitted(reads, place.rank, shapes, kernels::source_of(state));
            kernels::EmulatedKernels kernels(reads, place.rank, clock);
            const Status status =
                kernels.load([&](const std::string& name) { return fitted.read(name); });
            EXPECT_TRUE(status) << status.error().text();
            ++read;
          }
        }
      }
    }
  }
  EXPECT_GE(read, 80);
}

}  // namespace
}  // namespace tombolo::state
