#include "decide/geo/mixed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/random.h"
#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_partition.h"
#include "decide/geo/mixed_setting.h"
#include "decide/geo/mixed_why_not.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/pipeline_ends.h"
#include "support/hand_law.h"

namespace tombolo::geo {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Property;

std::vector<int64_t> layers_in(const MixedPlan& plan, const std::string& datacenter) {
  std::vector<int64_t> layers;
  for (const MixedStage& stage : plan.stages) {
    if (stage.datacenter == datacenter) layers.push_back(stage.layers);
  }
  return layers;
}

TEST(Mixed, SlowerDevicesGetFewerLayers) {
  // One device each, a layer takes 1 and 2 forward; links cost little. 4 and 2 balance.
  const plan::OpenJob open = job_over({{"fast", 1, 1, 1}, {"slow", 1, 1, 1}}, 0.001,
                                      "micro_batch = 1\nrecompute = \"full\"\n");
  const auto found = search_mixed(open, law_with({1, 2}), {});
  ASSERT_TRUE(found) << found.error().text();
  const MixedPlan& best = found->top.front();
  EXPECT_EQ(layers_in(best, "a"), std::vector<int64_t>{4});
  EXPECT_EQ(layers_in(best, "b"), std::vector<int64_t>{2});
  EXPECT_EQ(best.microbatches, 8);
  EXPECT_EQ(best.devices, 2);
}

TEST(Mixed, ADatacenterBehindASlowLinkIsLeftOut) {
  // 200 s one way: more than the whole iteration on the first datacenter alone.
  const plan::OpenJob open = job_over({{"fast", 1, 2, 1}, {"slow", 1, 2, 1}}, 200);
  const auto found = search_mixed(open, law_with({1, 2}), {});
  ASSERT_TRUE(found);
  for (const MixedStage& stage : found->top.front().stages) EXPECT_EQ(stage.datacenter, "a");
  EXPECT_THAT(found->why_not, Contains(Property(&MixedWhyNot::family, "using b")));
}

TEST(Mixed, MoreDevicesNeverMakeTheBestWorse) {
  Random random(11);
  int compared = 0;
  for (int round = 0; round < 25; ++round) {
    const double latency = random.uniform();
    const std::vector<Place> places{{"fast", 1, 2, 2}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1}};
    const HandLaw law =
        law_with({0.5 + random.uniform(), 1 + random.uniform(), 1 + random.uniform()});
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const MixedOptions options{.objective = objective};
      const auto all = search_mixed(job_over(places, latency), law, options);
      ASSERT_TRUE(all);
      for (size_t z = 0; z < places.size(); ++z) {
        HandLaw only = law;
        only.layer = {law.layer[z]};
        const auto alone = search_mixed(job_over({places[z]}, latency), only, options);
        if (!alone) continue;
        ++compared;
        EXPECT_LE(all->top.front().score, alone->top.front().score * (1 + 1e-9)) << round;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

// The best score by trying everything: slow, and as the header states it.
double brute_force(const plan::OpenJob& open, const HandLaw& law, search::Objective objective) {
  const plan::Job& job = open.job;
  const auto& places = job.cluster.datacenters;
  double best = std::numeric_limits<double>::infinity();
  std::map<std::string, std::vector<int64_t>> kinds;
  for (const cluster::Datacenter& place : places) {
    for (const int64_t t : {1, 2, 4}) {
      if (t <= place.scale_up.domain) kinds[place.device.name].push_back(t);
    }
  }
  for (auto& [name, tensors] : kinds) {
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  }
  const auto price_all = [&](const std::map<std::string, int64_t>& tensor, cost::Configuration c,
                             const std::vector<size_t>& order, const std::vector<int64_t>& stages) {
    const int64_t p = std::accumulate(stages.begin(), stages.end(), int64_t{0});
    const int64_t m = c.microbatches();
    compositions(
        job.model->layers, std::vector<int64_t>(static_cast<size_t>(p), 99),
        [&](const std::vector<int64_t>& layers) {
          std::vector<cost::StagePass> passes;
          std::vector<cost::Hop> hops;
          double end = 0, rate = 0, egress = 0;
          int64_t first = 0, s = 0;
          for (size_t i = 0; i < order.size(); ++i) {
            const size_t z = order[i];
            c.tensor = tensor.at(places[z].device.name);
            for (int64_t j = 0; j < stages[i]; ++j, ++s) {
              const model::Slice slice{first, layers[static_cast<size_t>(s)], s == 0, s + 1 == p};
              first += slice.layers;
              if (law.memory(z, c, slice, std::min(m, p - s)).total() > places[z].device.memory)
                return;
              const cost::StagePrice price = law.stage(z, c, slice);
              passes.push_back({price.forward, price.backward});
              end = std::max(end, (price.update + price.gradients).value);
              rate += places[z].price.value * static_cast<double>(c.tensor * c.data);
              if (s == 0) continue;
              if (j > 0) {
                hops.push_back(law.hop(z, c));
                continue;
              }
              const size_t y = order[i - 1];
              const cluster::WanLink& link = *job.cluster.link(places[y].name, places[z].name);
              const Bytes size = model::boundary_bytes(*job.model, c.micro_batch, 2);
              hops.push_back(cost::wan_hop(link, {&places[y], tensor.at(places[y].device.name)},
                                           {&places[z], c.tensor}, c.data, size));
              egress += 2 * static_cast<double>(m * c.data) * (link.price * size).value;
            }
          }
          const double time = cost::mixed_pipeline(passes, hops, m).value + end;
          best =
              std::min(best, objective == search::Objective::kCost ? time * rate + egress : time);
        });
  };
  const std::function<void(std::map<std::string, int64_t>)> with_tensor = [&](auto tensor) {
    for (const auto& [name, tensors] : kinds) {
      if (tensor.contains(name)) continue;
      for (const int64_t t : tensors) {
        tensor[name] = t;
        with_tensor(tensor);
      }
      return;
    }
    for (const int64_t data : {1, 2, 4, 8}) {
      for (int64_t b = 1; b <= 8 / data; b *= 2) {
        for (const auto recompute : {model::Recompute::kNone, model::Recompute::kFull}) {
          cost::Configuration c{{.data = data}, b, 8};
          c.recompute = recompute;
          for (size_t set = 1; set < size_t{1} << places.size(); ++set) {
            std::vector<size_t> order;
            for (size_t z = 0; z < places.size(); ++z) {
              if (set >> z & 1) order.push_back(z);
            }
            do {
              if (!plan::may_begin_in(job.parallelism, places[order.front()].name) ||
                  !plan::may_end_in(job.parallelism, places[order.back()].name))
                continue;
              std::vector<int64_t> rooms;
              for (const size_t z : order) {
                const int64_t t = tensor[places[z].device.name];
                const bool fits = t <= places[z].scale_up.domain;
                rooms.push_back(fits ? places[z].nodes * (places[z].devices_per_node / t) / data
                                     : 0);
              }
              for (int64_t p = 1; p <= job.model->layers; ++p) {
                compositions(p, rooms, [&](const std::vector<int64_t>& stages) {
                  price_all(tensor, c, order, stages);
                });
              }
            } while (std::next_permutation(order.begin(), order.end()));
          }
        }
      }
    }
  };
  with_tensor({});
  return best;
}

TEST(Mixed, EqualsBruteForceOverEverything) {
  Random random(5);
  for (int round = 0; round < 12; ++round) {
    const std::vector<Place> places{
        {"fast", 1, 2, 1 + random.uniform()}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1.2}};
    const HandLaw law =
        law_with({0.5 + random.uniform(), 0.5 + random.uniform(), 1 + random.uniform()});
    // From links that cost nothing to links that take longer than stages.
    const plan::OpenJob open = job_over(places, round % 3 == 0 ? 0.001 : 2 * random.uniform());
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const auto found = search_mixed(open, law, {.objective = objective});
      ASSERT_TRUE(found) << found.error().text();
      const double expected = brute_force(open, law, objective);
      EXPECT_NEAR(found->top.front().score, expected, 1e-9 * expected) << "round " << round;
      const auto scouted = search_mixed(open, law, {.objective = objective, .scouted_from = 2});
      ASSERT_TRUE(scouted);
      ASSERT_EQ(scouted->top.size(), found->top.size());
      for (size_t i = 0; i < found->top.size(); ++i) {
        EXPECT_NEAR(scouted->top[i].score, found->top[i].score, 1e-9 * expected) << i;
      }
      const auto slow = search_mixed(open, law, {.objective = objective, .prune = false});
      ASSERT_TRUE(slow);
      ASSERT_EQ(slow->top.size(), found->top.size());
      for (size_t i = 0; i < slow->top.size(); ++i) {
        EXPECT_NEAR(slow->top[i].score, found->top[i].score, 1e-9 * expected) << i;
      }
      EXPECT_LT(found->evaluated, slow->evaluated);
    }
  }
}

// Samples and labels stay where they are, whatever that costs.
TEST(Mixed, EqualsBruteForceWithFixedEnds) {
  Random random(9);
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> ends{
      {{"b"}, {}}, {{}, {"a"}}, {{"c"}, {"b"}}, {{"a", "b"}, {"c"}}, {{"c"}, {"c"}}};
  for (int round = 0; round < 10; ++round) {
    plan::OpenJob open =
        job_over({{"fast", 1, 2, 1 + random.uniform()}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1.2}},
                 round % 3 == 0 ? 0.001 : 2 * random.uniform());
    const HandLaw law =
        law_with({0.5 + random.uniform(), 0.5 + random.uniform(), 1 + random.uniform()});
    const auto& [first, last] = ends[static_cast<size_t>(round) % ends.size()];
    open.job.parallelism.first_stage_in = first;
    open.job.parallelism.last_stage_in = last;
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const double expected = brute_force(open, law, objective);
      for (const MixedOptions& options : {MixedOptions{.objective = objective},
                                          MixedOptions{.objective = objective, .scouted_from = 2},
                                          MixedOptions{.objective = objective, .prune = false}}) {
        const auto found = search_mixed(open, law, options);
        ASSERT_TRUE(found) << found.error().text();
        EXPECT_NEAR(found->top.front().score, expected, 1e-9 * expected) << "round " << round;
        for (const MixedPlan& plan : found->top) {
          EXPECT_TRUE(plan::may_begin_in(open.job.parallelism, plan.stages.front().datacenter));
          EXPECT_TRUE(plan::may_end_in(open.job.parallelism, plan.stages.back().datacenter));
        }
        const plan::Job job = with_plan(open.job, found->top.front());
        EXPECT_EQ(job.parallelism.first_stage_in, first);
        EXPECT_EQ(job.parallelism.last_stage_in, last);
      }
    }
  }
}

TEST(Mixed, EndsThatCannotBeAreNamed) {
  plan::OpenJob open = job_over({{"fast", 1, 2, 1}, {"slow", 1, 2, 1}}, 0.1);
  open.job.parallelism.first_stage_in = {"a"};
  open.job.parallelism.last_stage_in = {"b"};
  open.job.cluster.wan.clear();
  const auto apart = search_mixed(open, law_with({1, 2}), {});
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(apart.error().text(),
              HasSubstr("first_stage_in = [a], last_stage_in = [b]: no links lead from the first"));
  open.job.parallelism.last_stage_in = {"a"};
  open.job.cluster.datacenters[0].device.memory = Bytes{1e8};
  const auto full = search_mixed(open, law_with({1, 2}), {});
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().text(), HasSubstr("nothing fits with first_stage_in = [a], last"));
  EXPECT_THAT(full.error().text(), HasSubstr("does not return to a datacenter, fits into memory"));
  open.fixed.data = 4;
  EXPECT_THAT(
      search_mixed(open, law_with({1, 2}), {}).error().text(),
      HasSubstr("no datacenter of first_stage_in has devices for a stage of each pipeline"));
  open = job_over({{"fast", 1, 2, 1}, {"slow", 1, 2, 1}}, 0.1);
  open.job.parallelism.first_stage_in = {"a"};
  open.job.parallelism.last_stage_in = {"b"};
  open.fixed.pipeline = 1;
  EXPECT_THAT(search_mixed(open, law_with({1, 2}), {}).error().text(),
              HasSubstr("parallelism.pipeline = 1, and no datacenter is in both: first_stage_in"));
}

TEST(Mixed, KeysWithoutAnEffectAreNoted) {
  plan::OpenJob open = job_over({{"fast", 1, 2, 1}, {"slow", 1, 2, 1}}, 0.1);
  open.job.parallelism.sharing = layout::Sharing::kTemporal;
  open.job.parallelism.cell = 2;
  open.job.parallelism.discipline = layout::Discipline::kStrict;
  open.job.parallelism.order = "cp-tp-ep-dp-pp";
  open.job.parallelism.schedule = layout::default_schedule(2);
  open.job.parallelism.datacenter_per_stage = {{"a"}, {"b"}};
  const auto found = search_mixed(open, law_with({1, 2}), {});
  ASSERT_TRUE(found) << found.error().text();
  for (const char* key : {"sharing = \"temporal\" has", "cell = 2 has",
                          "discipline = \"strict\" has", "order = \"cp-tp-ep-dp-pp\" has",
                          "schedule = \"interleaved\" has", "datacenter_per_stage has"})
    EXPECT_THAT(found->notes, Contains(HasSubstr(key)));
}

// Stopped anywhere, the best so far and the gap say how good the best of all can be.
TEST(Mixed, StoppedItSaysWhatIsLeftToWin) {
  const plan::OpenJob open =
      job_over({{"fast", 1, 2, 2}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1}}, 0.3);
  const HandLaw law = law_with({0.7, 1.1, 1.3});
  for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
    const auto whole = search_mixed(open, law, {.objective = objective, .scouted_from = 2});
    ASSERT_TRUE(whole);
    EXPECT_FALSE(whole->stopped);
    EXPECT_EQ(whole->gap, 0);
    const double best = whole->top.front().score;
    int answers = 0;
    bool ended = false;
    for (int asks = 0; !ended; asks = asks * 5 / 4 + 1) {
      int asked = 0;
      MixedOptions options{.objective = objective, .scouted_from = 2};
      options.stop = [&] { return ++asked > asks; };
      const auto found = search_mixed(open, law, options);
      if (!found) {
        EXPECT_THAT(found.error().message, HasSubstr("stopped before a plan was found"));
        EXPECT_EQ(answers, 0) << "there was one before";
        continue;
      }
      ++answers;
      ended = !found->stopped;
      EXPECT_GE(found->top.front().score, best * (1 - 1e-9));
      EXPECT_LE(found->top.front().score * (1 - found->gap), best * (1 + 1e-9)) << asks;
      for (const MixedWhyNot& why : found->why_not)
        EXPECT_THAT(why.reason, testing::Not(HasSubstr("no less when simulated"))) << why.family();
    }
    EXPECT_GT(answers, 5);
  }
}

// Bounds count the gradients that the ends of a tied embedding send each other.
TEST(Mixed, BoundsCutNoWinnerWithATiedEmbedding) {
  Random random(6);
  for (int round = 0; round < 6; ++round) {
    plan::OpenJob open = job_over({{"fast", 1, 2, 1.5}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1.2}},
                                  2 * random.uniform());
    const HandLaw law = law_with({0.5 + random.uniform(), 0.5 + random.uniform(), 1});
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      for (const bool tied : {false, true}) {
        open.job.model->tied_embeddings = tied;
        const auto found =
            search_mixed(open, law, {.objective = objective, .top = 3, .scouted_from = 2});
        const auto all =
            search_mixed(open, law, {.objective = objective, .top = 3, .prune = false});
        ASSERT_TRUE(found && all);
        ASSERT_EQ(found->top.size(), all->top.size());
        for (size_t i = 0; i < all->top.size(); ++i) {
          EXPECT_NEAR(found->top[i].score, all->top[i].score, 1e-9 * all->top[i].score) << i;
        }
        EXPECT_LT(found->evaluated, all->evaluated);
      }
    }
  }
}

// Of seven datacenters sets are bounded together.
TEST(Mixed, BoundsOfManyDatacentersCutNoWinner) {
  const HandLaw law = law_with({1, 0.6, 0.8, 1.2, 0.5, 0.9, 0.7});
  for (const double latency : {0.0005, 0.05, 1.0}) {
    const plan::OpenJob open = job_over({{"fast", 1, 1, 1.5},
                                         {"slow", 1, 1, 1},
                                         {"slow", 1, 1, 1.2},
                                         {"fast", 1, 1, 1.1},
                                         {"fast", 1, 1, 1.3},
                                         {"slow", 1, 1, 0.9},
                                         {"fast", 1, 1, 1.4}},
                                        latency, "micro_batch = 1\n[parallelism]\ndata = 1\n");
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const auto found = search_mixed(open, law, {.objective = objective, .top = 3});
      const auto all = search_mixed(open, law, {.objective = objective, .top = 3, .prune = false});
      ASSERT_TRUE(found && all);
      ASSERT_EQ(found->top.size(), all->top.size());
      for (size_t i = 0; i < all->top.size(); ++i)
        EXPECT_NEAR(found->top[i].score, all->top[i].score, 1e-9 * all->top[i].score) << i;
      EXPECT_LT(found->evaluated, all->evaluated);
    }
  }
}

// Every second layer has experts, and takes another time than its neighbours.
TEST(Mixed, EqualsBruteForceWhereKindsOfLayersTakeTurns) {
  for (const double odd : {0.3, 2.5}) {
    const plan::OpenJob open = job_over({{"fast", 1, 2, 1.5}, {"slow", 2, 1, 1}}, 0.1,
                                        "[model.experts]\ncount = 2\nper_token = 1\nffn = 64\n"
                                        "every = 2\n");
    ASSERT_EQ(open.job.model->layer_period(), 2);
    HandLaw law = law_with({0.6, 1});
    law.odd = odd;
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const auto found = search_mixed(open, law, {.objective = objective, .scouted_from = 2});
      ASSERT_TRUE(found) << found.error().text();
      const double expected = brute_force(open, law, objective);
      EXPECT_NEAR(found->top.front().score, expected, 1e-9 * expected) << odd;
    }
  }
}

TEST(Mixed, ThreadsChangeNothing) {
  const plan::OpenJob open =
      job_over({{"fast", 1, 2, 2}, {"slow", 2, 1, 1}, {"slow", 1, 2, 1}}, 0.1);
  const HandLaw law = law_with({0.7, 1.1, 1.3});
  for (const size_t scouted_from : {2, 5}) {
    const auto one = search_mixed(open, law, {.threads = 1, .scouted_from = scouted_from});
    const auto three = search_mixed(open, law, {.threads = 3, .scouted_from = scouted_from});
    ASSERT_TRUE(one && three);
    EXPECT_EQ(one->evaluated, three->evaluated);
    EXPECT_EQ(one->settings_cut, three->settings_cut);
    ASSERT_EQ(one->top.size(), three->top.size());
    for (size_t i = 0; i < one->top.size(); ++i) {
      EXPECT_EQ(one->top[i].score, three->top[i].score);
      EXPECT_EQ(one->top[i].stages.size(), three->top[i].stages.size());
    }
    ASSERT_EQ(one->why_not.size(), three->why_not.size());
    for (size_t i = 0; i < one->why_not.size(); ++i) {
      EXPECT_EQ(one->why_not[i].reason, three->why_not[i].reason);
    }
  }
}

// Nearest neighbours give one order from each start; the best of all 5,040 may be another.
TEST(Mixed, OrdersOfManyDatacentersAreScouted) {
  Random random(3);
  int better = 0;
  for (int round = 0; round < 8; ++round) {
    std::vector<double> layer;
    for (int z = 0; z < 7; ++z) layer.push_back(0.5 + random.uniform());
    plan::OpenJob open =
        job_over(std::vector<Place>(7, {"any", 1, 1, 1}), 0.3 * random.uniform(),
                 "micro_batch = 1\nrecompute = \"full\"\n[parallelism]\ndata = 1\n");
    open.job.model->layers = 9;
    const auto found = search_mixed(open, law_with(layer), {.top = 1});
    const auto without = search_mixed(open, law_with(layer), {.top = 1, .scouted_from = 99});
    ASSERT_TRUE(found && without);
    EXPECT_LE(found->top.front().score, without->top.front().score * (1 + 1e-9));
    if (found->top.front().score < without->top.front().score * (1 - 1e-9)) ++better;
  }
  EXPECT_GT(better, 0);
}

TEST(Mixed, WhatDoesNotFitIsSaidWithNumbers) {
  // 6 layers and two halves for embedding and head on one device of 12 GB: 7 GB of state, and 7 GB
  // for the one sequence in flight.
  const plan::OpenJob open = job_over({{"fast", 1, 1, 1}}, 0.1, "recompute = \"none\"\n");
  const auto found = search_mixed(open, law_with({1}), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code(), 3);
  EXPECT_THAT(found.error().text(), HasSubstr("needs 14 GB, has 12 GB"));
  // With full recomputation it fits, and why none did not is told.
  const auto full = search_mixed(job_over({{"fast", 1, 1, 1}}, 0.1), law_with({1}), {});
  ASSERT_TRUE(full) << full.error().text();
  EXPECT_THAT(full->why_not, Contains(AllOf(Property(&MixedWhyNot::family, "recompute none"),
                                            Field(&MixedWhyNot::reason, HasSubstr("14 GB")))));
}

TEST(Mixed, TheShortListHasTheClosestAndTheFirstMissOfEachAxis) {
  const std::vector<MixedWhyNot> all{{"data", "1", "", 9},
                                     {"data", "2", "", 8},
                                     {"data", "4", ""},
                                     {"data", "8", ""},
                                     {"zero", "0", "", 7}};
  const std::vector<MixedWhyNot> few = short_list(all);
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[0].family(), "data 2");
  EXPECT_EQ(few[1].family(), "data 4");
  EXPECT_EQ(few[2].family(), "zero 0");
}

TEST(Mixed, NoPlanIsListedTwice) {
  // The second kind of device is too slow for any plan; its tensor parallelism makes no difference.
  const plan::OpenJob open = job_over({{"fast", 1, 2, 1}, {"slow", 1, 4, 1}}, 200);
  const auto found = search_mixed(open, law_with({1, 2}), {.top = 9, .prune = false});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->top.size(), 9u);
  std::vector<std::string> seen;
  for (const MixedPlan& plan : found->top) {
    std::string text =
        fmt::format("{} {} {} {}", plan.data, plan.micro_batch, to_name(plan.recompute), plan.zero);
    for (const MixedStage& stage : plan.stages) {
      text += fmt::format("; {} {} {}", stage.datacenter, stage.tensor, stage.layers);
    }
    EXPECT_THAT(seen, ::testing::Not(Contains(text)));
    seen.push_back(text);
  }
}

TEST(Mixed, ThePlanBecomesAJobThatSaysWhereStagesLie) {
  const plan::OpenJob open =
      job_over({{"fast", 1, 1, 1}, {"slow", 1, 1, 1}}, 0.001, "recompute = \"full\"\n");
  const auto found = search_mixed(open, law_with({1, 2}), {});
  ASSERT_TRUE(found);
  const MixedPlan& best = found->top.front();
  const Result<plan::Job> job = with_plan(open.job, best);
  ASSERT_TRUE(job) << job.error().text();
  const Result<plan::Plan> plan = cost::make_plan(*job);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_EQ(plan->stages.size(), best.stages.size());
  for (size_t s = 0; s < best.stages.size(); ++s) {
    EXPECT_EQ(plan->stages[s].slice.layers, best.stages[s].layers);
    EXPECT_EQ(plan->ranks[s].datacenter, best.stages[s].datacenter);
  }
}

constexpr const char* kTwoKinds = R"(
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
nodes = 2
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "300 GBps" }
price = "1 USD/device-hour"
[[cluster.datacenter]]
name = "b"
device = "h100-80g"
nodes = 1
devices_per_node = 4
scale_up = { domain = 4, bandwidth = "450 GBps" }
price = "2 USD/device-hour"
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "0.5 ms"
node_pair_limit = "200 Gbps"
price = "0.01 USD/GB"
[training]
global_batch = 32
)";

// By the law that prices Plans, what is printed of one is what its own file then says.
TEST(Mixed, ThePlanThatIsWrittenHasThePricesThatWerePrinted) {
  const plan::OpenJob open = *plan::parse_open_job(kTwoKinds, "job.toml");
  const auto found = search_mixed(open, {.top = 9});
  ASSERT_TRUE(found) << found.error().text();
  bool several = false;
  for (const MixedPlan& plan : found->top) {
    const auto priced = cost::make_plan(with_plan(open.job, plan));
    ASSERT_TRUE(priced) << priced.error().text();
    const auto predicted = cost::predict_plan(*priced, "job.toml");
    ASSERT_TRUE(predicted) << predicted.error().text();
    EXPECT_NEAR(predicted->time.iteration.value, plan.time.iteration.value,
                1e-9 * plan.time.iteration.value);
    EXPECT_EQ(predicted->devices, plan.devices);
    EXPECT_NEAR(predicted->ledger.cost(predicted->time.iteration).total()->value,
                plan.cost()->value, 1e-9);
    ASSERT_EQ(predicted->stages.size(), plan.stages.size());
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      EXPECT_EQ(predicted->stages[s].memory, plan.stages[s].memory);
      several = several || plan.stages[s].datacenter != plan.stages[0].datacenter;
    }
  }
  EXPECT_TRUE(several);

  // One of them at no known price: there is a cost of plans on the other alone.
  plan::OpenJob unpriced = open;
  unpriced.job.cluster.datacenters[1].price = {};
  const auto without = search_mixed(unpriced, {.top = 9});
  ASSERT_TRUE(without) << without.error().text();
  for (const MixedPlan& plan : without->top) {
    const auto on_other = [](const cost::PlacedStage& stage) { return stage.datacenter == "b"; };
    const bool known = std::none_of(plan.stages.begin(), plan.stages.end(), on_other);
    EXPECT_EQ(plan.cost().has_value(), known);
  }
}

TEST(Mixed, RanksItsFinalistsByWhatTheSimulatorSays) {
  for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
    const plan::OpenJob open = *plan::parse_open_job(kTwoKinds, "job.toml");
    const auto found = search_mixed(
        open,
        {.objective = objective, .top = 6, .finals = {.candidates = 6, .at_most = Seconds{1e3}}});
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->finals.simulated, 6);
    const auto closed = search_mixed(open, {.objective = objective, .top = 6});
    for (size_t i = 0; i < found->top.size(); ++i) {
      const MixedPlan& plan = found->top[i];
      ASSERT_TRUE(plan.simulated);
      const std::vector<plan::Job> written{with_plan(open.job, plan)};
      EXPECT_EQ(plan.simulated, search::simulate_finals({.candidates = 1}, written, 1).front());
      const double score =
          objective == search::Objective::kCost ? plan.cost()->value : plan.iteration().value;
      EXPECT_DOUBLE_EQ(plan.score, score);
      if (i > 0) {
        EXPECT_GE(plan.score, found->top[i - 1].score);
      }
      const auto same = std::find_if(closed->top.begin(), closed->top.end(), [&](const auto& each) {
        return each.time.iteration == plan.time.iteration && each.devices == plan.devices;
      });
      ASSERT_NE(same, closed->top.end());
      const double longer = *plan.simulated / plan.time.iteration;
      EXPECT_DOUBLE_EQ(plan.price->value, same->price->value * longer);
      EXPECT_DOUBLE_EQ(plan.mfu, same->mfu / longer);
      EXPECT_EQ(plan.egress, same->egress);
    }
  }
}

TEST(Mixed, OrdersOfManyDatacentersFollowTheMap) {
  // Nine places on a line, 1 apart: the only order without detours is along it, in both directions.
  std::vector<std::vector<double>> transfer(9, std::vector<double>(9));
  std::vector<size_t> all(9);
  std::iota(all.begin(), all.end(), size_t{0});
  for (const size_t a : all) {
    for (const size_t b : all) transfer[a][b] = a < b ? b - a : a - b;
  }
  const std::vector<bool> any(9, true);
  const auto orders = orders_of(all, transfer, any, any);
  ASSERT_FALSE(orders.empty());
  EXPECT_EQ(orders.front(), all);
  EXPECT_EQ(orders_of({0, 1, 2}, transfer, any, any).size(), 6u);
  // From the fourth to the eighth: back to the first, then on to the last and back one.
  std::vector<bool> first(9), last(9);
  first[3] = last[7] = true;
  const auto between = orders_of(all, transfer, first, last);
  ASSERT_EQ(between.size(), 1u);
  EXPECT_EQ(between.front(), (std::vector<size_t>{3, 2, 1, 0, 4, 5, 6, 8, 7}));
  EXPECT_EQ(orders_of({0, 3, 7}, transfer, first, last),
            (std::vector<std::vector<size_t>>{{3, 0, 7}}));
}

// A chain of nine with a short cut between the first and the third, which nearest neighbours take.
TEST(Mixed, OrdersOfManyDatacentersFollowTheLinks) {
  std::vector<std::vector<double>> transfer(9, std::vector<double>(9, kInfinity));
  for (size_t z = 0; z + 1 < 9; ++z) transfer[z][z + 1] = transfer[z + 1][z] = 1;
  transfer[0][2] = transfer[2][0] = 0.1;
  std::vector<size_t> all(9);
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<bool> first(9), last(9);
  first[0] = last[8] = true;
  EXPECT_EQ(orders_of(all, transfer, first, last), (std::vector<std::vector<size_t>>{all}));
  transfer[4][5] = transfer[5][4] = kInfinity;
  EXPECT_TRUE(orders_of(all, transfer, first, last).empty());
}

TEST(MixedBound, IsNeverAboveTheBestPartition) {
  Random random(9);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    const int64_t layers = 4 + static_cast<int64_t>(random.below(12));
    const auto count = 1 + random.below(3);
    std::vector<StageTable> tables(count);
    std::vector<StageRoom> rooms;
    PartitionProblem problem{.layers = layers,
                             .microbatches = 1 + static_cast<int64_t>(random.below(20))};
    PipelineNeeds needs{.layers = layers, .microbatches = problem.microbatches};
    double rate = 0;
    for (size_t z = 0; z < count; ++z) {
      const double each = 0.5 + random.uniform(), fixed = 0.2 * random.uniform();
      auto& row = tables[z].rows.emplace_back();
      for (int64_t l = 1; l <= layers; ++l) {
        row.push_back({each * static_cast<double>(l) + fixed, 0.1 * static_cast<double>(l)});
      }
      StageRoom room{.layer = row.back().pass / static_cast<double>(layers)};
      room.stages = 1 + static_cast<int64_t>(random.below(3));
      room.rate = 1 + random.uniform();
      room.holds = 1 + static_cast<int64_t>(random.below(8));
      for (int64_t s = 0; s < room.stages; ++s) {
        if (!problem.stages.empty()) {
          const double transfer = random.uniform();
          problem.hops.push_back({Seconds{transfer}, Seconds{transfer}, Seconds{transfer / 2}});
          needs.transfers += 2 * transfer;
          needs.exposed += 2 * transfer;
          needs.period_min = std::max(needs.period_min, transfer / 2);
        }
        problem.stages.push_back({&tables[z], {room.holds}});
        rate += room.rate;
      }
      rooms.push_back(room);
    }
    needs.end_min = 0.1;
    const auto best = best_partition(problem, 1e9);
    if (!best) continue;
    ++compared;
    EXPECT_LE(time_bound(rooms, needs), best->total * (1 + 1e-9)) << round;
    EXPECT_LE(cost_bound(rooms, needs), best->total * rate * (1 + 1e-9)) << round;
    // What is not decided may have fewer stages, and only lowers the bound.
    const double decided = cost_bound(rooms, needs);
    rooms[0].decided = false;
    EXPECT_LE(cost_bound(rooms, needs), decided * (1 + 1e-9)) << round;
  }
  EXPECT_GT(compared, 200);
}

TEST(MixedDeathTest, CallersKeepTheirPromises) {
  const plan::OpenJob open = job_over({{"fast", 1, 2, 2}, {"slow", 1, 2, 1}}, 0.001);
  const HandLaw law = law_with({1, 2});
  EXPECT_DEATH(static_cast<void>(search_mixed(open, law, {.top = 0})), "top 0, threads 1");
  EXPECT_DEATH(static_cast<void>(with_plan(open.job, {})), "a plan without a stage");
  EXPECT_DEATH(orders_of({0, 2}, {{0, 1}, {1, 0}}, {true, true}, {true, true}),
               "no way from datacenter 2 to all 2");
  EXPECT_DEATH(period_bound({}, {.layers = 0}), "0 layers and 1 microbatches");
}

TEST(MixedSettingDeathTest, ASettingIsOfTheJob) {
  const plan::OpenJob open = job_over({{"fast", 1, 2, 2}, {"slow", 1, 2, 1}}, 0.001);
  const HandLaw law = law_with({1, 2});
  EXPECT_DEATH(PricedSetting(open.job, law, {.tensor = {1}, .must_use = {}}, std::nullopt),
               "tensor parallelism in 1 of 2 datacenters");
  EXPECT_DEATH(
      PricedSetting(open.job, law, {.tensor = {1, 1}, .data = 3, .must_use = {}}, std::nullopt),
      "3 pipelines with microbatches of 1 do not divide a batch of 8");
  PricedSetting priced(open.job, law, {.tensor = {1, 1}, .must_use = {}}, std::nullopt);
  EXPECT_DEATH(priced.most(0, true, false, 0), "memory for 0 microbatches");
  const MixedOptions options;
  const MixedTask task{open, law, options};
  const std::vector<MixedSetting> settings;
  EXPECT_DEATH(MixedWhyNotBook(task, settings).add(0, {}), "setting 0 of 0");
}

// Two to five datacenters of two kinds, some of which differ in price or name alone, in every order of
// some.
TEST(Mixed, TheOrderOfDatacentersChangesNothing) {
  Random random(5);
  for (size_t n = 2; n <= 5; ++n) {
    std::string text = R"(
[model]
layers = 6
hidden = 1024
heads = 8
vocabulary = 1000
sequence = 1024
[training]
global_batch = 24
)";
    for (size_t z = 0; z < n; ++z) {
      text += fmt::format(
          "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"{}\"\nnodes = {}\n"
          "price = \"{} USD/device-hour\"\n",
          static_cast<char>('a' + z), z % 2 == 0 ? "a100-80g" : "v100-16g", 1 + z / 4, 3 - z / 2);
      for (size_t y = 0; y < z; ++y) {
        text += fmt::format(
            "[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"{} ms\"\n"
            "node_pair_limit = \"20 Gbps\"\n",
            static_cast<char>('a' + y), static_cast<char>('a' + z), 1 + y / 2);
      }
    }
    plan::OpenJob open = *plan::parse_open_job(text, "job.toml");
    const auto first = search_mixed(open, {.top = 9});
    ASSERT_TRUE(first) << first.error().text();
    for (int round = 0; round < 4; ++round) {
      auto& places = open.job.cluster.datacenters;
      for (size_t i = places.size() - 1; i > 0; --i)
        std::swap(places[i], places[random.below(i + 1)]);
      const auto again = search_mixed(open, {.top = 9});
      ASSERT_TRUE(again) << again.error().text();
      ASSERT_EQ(again->top.size(), first->top.size());
      for (size_t k = 0; k < first->top.size(); ++k) {
        const MixedPlan &one = first->top[k], &other = again->top[k];
        EXPECT_EQ(other.time.iteration, one.time.iteration) << n << " " << k;
        EXPECT_EQ(other.cost()->value, one.cost()->value) << n << " " << k;
        ASSERT_EQ(other.stages.size(), one.stages.size());
        for (size_t s = 0; s < one.stages.size(); ++s) {
          EXPECT_EQ(other.stages[s].datacenter, one.stages[s].datacenter);
          EXPECT_EQ(other.stages[s].layers, one.stages[s].layers);
        }
      }
      ASSERT_EQ(again->why_not.size(), first->why_not.size());
      for (size_t k = 0; k < first->why_not.size(); ++k) {
        EXPECT_EQ(again->why_not[k].reason, first->why_not[k].reason);
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::geo
