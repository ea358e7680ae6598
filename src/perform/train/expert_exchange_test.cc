#include "perform/train/expert_exchange.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <thread>

#include "base/random.h"
#include "perform/train/guarded.h"
#include "perform/train/sharded_stage.h"
#include "support/memory_messenger.h"

namespace tombolo::train {
namespace {

using testing::HasSubstr;

// Every member in a thread of its own.
void on_members(int32_t members, MemoryHub& hub,
                const std::function<void(const kernels::Replicas&)>& act) {
  std::vector<std::thread> threads;
  for (int32_t own = 0; own < members; ++own) {
    threads.emplace_back([&, own] {
      MemoryMessenger messenger(hub, own);
      kernels::Replicas replicas{.own = static_cast<size_t>(own), .messenger = &messenger};
      for (int32_t rank = 0; rank < members; ++rank) replicas.ranks.push_back(rank);
      act(replicas);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr int64_t kSamplesOfMember = 2;

model::Model six_experts() {
  model::Model m{.name = "tiny",
                 .layers = 2,
                 .hidden = 16,
                 .heads = 4,
                 .kv_heads = 2,
                 .ffn = 24,
                 .vocabulary = 13,
                 .sequence = 16};
  m.experts = model::Experts{.count = 6, .per_token = 2, .ffn = 8, .shared_ffn = 4};
  return m;
}

at::Tensor member_tokens(int64_t sample_from) {
  const int64_t numbers = kSamplesOfMember * six_experts().sequence;
  return ((at::arange(numbers, at::kLong) + sample_from * numbers) * 7 + 3)
      .remainder(six_experts().vocabulary)
      .view({kSamplesOfMember, six_experts().sequence});
}

// Off the starting point, where norms are special; named, so that it is the same on every rank that has it.
void move_off(StageModule& module) {
  const at::NoGradGuard no_gradients;
  for (Parameter& each : module.parameters()) {
    double shift = 0;
    for (const char letter : each.name) shift = std::fmod(shift * 1.7 + letter, 1.0);
    each.value.mul_(3).add_(0.01 * shift);
  }
}

// Loss of two microbatches, and by name the gradients.
struct MemberOutcome {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;
};

MemberOutcome pass_of_member(const ShardDegrees& degrees, ExpertExchange* exchange, int64_t member,
                             int64_t members) {
  const model::Model m = six_experts();
  auto whole = StageModule::create(m, {0, m.layers, true, true}, 1, at::kDouble, exchange);
  CHECK(whole, "{}", whole.error().text());
  move_off(*whole);
  ShardTeam team(static_cast<int32_t>(degrees.shards()));
  std::optional<ShardCollectives> with;
  if (degrees.shards() > 1) with.emplace(team, degrees);
  if (exchange && with) exchange->serve(*with);
  const ShardedStage::Strand strand{with ? &*with : nullptr, exchange};
  auto made = ShardedStage::create(*whole, {&strand, 1}, kSamplesOfMember);
  CHECK(made, "{}", made.error().text());
  ShardedStage& stage = **made;
  MemberOutcome out;
  stage.begin_gradients();
  for (int64_t microbatch = 0; microbatch < 2; ++microbatch) {
    const at::Tensor tokens = member_tokens(microbatch * members + member);
    std::vector<at::Tensor> outputs(static_cast<size_t>(stage.shards()));
    std::vector<double> losses(outputs.size());
    std::vector<std::unique_ptr<WeightGradients>> later;
    for (int32_t shard = 0; shard < stage.shards(); ++shard) {
      later.push_back(std::make_unique<WeightGradients>());
      if (stage.is_cut()) later.back()->add_in_place();
    }
    stage.for_each([&](int32_t shard) {
      const auto i = static_cast<size_t>(shard);
      outputs[i] = stage.module(shard).forward(stage.tokens_of(shard, tokens), later[i].get());
      outputs[i] =
          stage.loss(shard, outputs[i], stage.tokens_of(shard, tokens * 5 % 13).view({-1}));
      losses[i] = outputs[i].item<double>();
    });
    out.losses.push_back(stage.join_loss(losses));
    stage.for_each([&](int32_t shard) {
      torch::autograd::backward({outputs[static_cast<size_t>(shard)]}, {});
    });
    stage.fold();
  }
  for (const Parameter& each : whole->parameters()) out.gradients[each.name] = each.value.grad();
  return out;
}

// In double, so that what remains is an error and no rounding. Gradients of experts are complete where they are, those of
// the rest add up over members.
TEST(ExpertExchange, EqualsARankThatHasAllExperts) {
  for (const int32_t members : {2, 3}) {
    for (const ShardDegrees& degrees :
         {ShardDegrees{}, ShardDegrees{2, 1, true}, ShardDegrees{1, 2}, ShardDegrees{2, 2, false},
          ShardDegrees{4, 1, false}}) {
      SCOPED_TRACE(fmt::format("{} members, tensor {} x context {}", members, degrees.tensor,
                               degrees.context));
      std::vector<MemberOutcome> here(static_cast<size_t>(members));
      MemoryHub hub;
      on_members(members, hub, [&](const kernels::Replicas& group) {
        ExpertExchange exchange(6, members, static_cast<int64_t>(group.own));
        exchange.join(group);
        exchange.begin_iteration(1);
        here[group.own] =
            pass_of_member(degrees, &exchange, static_cast<int64_t>(group.own), members);
      });
      std::map<std::string, at::Tensor> expected;
      for (int64_t member = 0; member < members; ++member) {
        const MemberOutcome alone = pass_of_member({}, nullptr, member, members);
        for (size_t i = 0; i < alone.losses.size(); ++i)
          EXPECT_NEAR(here[static_cast<size_t>(member)].losses[i], alone.losses[i], 1e-12);
        for (const auto& [name, gradient] : alone.gradients) {
          at::Tensor& sum = expected[name];
          sum = sum.defined() ? sum + gradient : gradient;
        }
      }
      std::map<std::string, at::Tensor> sums;
      for (const MemberOutcome& each : here) {
        for (const auto& [name, gradient] : each.gradients) {
          at::Tensor& sum = sums[name];
          sum = sum.defined() ? sum + gradient : gradient;
        }
      }
      ASSERT_EQ(sums.size(), expected.size());
      for (const auto& [name, gradient] : expected) {
        const double size = gradient.norm().item<double>();
        EXPECT_LE((sums.at(name) - gradient).norm().item<double>(), 1e-12 * std::max(size, 0.1))
            << name;
      }
    }
  }
}

// Rows say where they come from: member, expert, number.
at::Tensor labelled_rows(int64_t member, const std::vector<int64_t>& counts) {
  std::vector<at::Tensor> rows;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    for (int64_t i = 0; i < counts[expert]; ++i)
      rows.push_back(at::tensor({double(member), double(expert), double(i)}, at::kDouble));
  }
  return rows.empty() ? at::empty({0, 3}, at::kDouble) : at::stack(rows);
}

// Any counts, none among them: rows come to their expert, by member, and back where they were.
TEST(ExpertExchange, RowsGoToTheirExpertsAndBack) {
  constexpr int64_t kExperts = 4, kMembers = 2;
  Random random(7);
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<std::vector<int64_t>> counts(kMembers);
    for (auto& each : counts) {
      for (int64_t i = 0; i < kExperts; ++i)
        each.push_back(static_cast<int64_t>(random.below(turn % 2 == 0 ? 2 : 6)));
    }
    MemoryHub hub;
    on_members(kMembers, hub, [&](const kernels::Replicas& group) {
      ExpertExchange exchange(kExperts, kMembers, static_cast<int64_t>(group.own));
      exchange.join(group);
      const at::Tensor given = labelled_rows(static_cast<int64_t>(group.own), counts[group.own]);
      const ExpertRows there = to_experts(exchange, 0, given, counts[group.own]);
      std::vector<at::Tensor> expected;
      for (size_t expert = group.own * 2; expert < group.own * 2 + 2; ++expert) {
        int64_t count = 0;
        for (int64_t member = 0; member < kMembers; ++member) {
          std::vector<int64_t> only(kExperts);
          only[expert] = counts[static_cast<size_t>(member)][expert];
          count += only[expert];
          expected.push_back(labelled_rows(member, only));
        }
        EXPECT_EQ(there.counts[expert % 2], count);
      }
      EXPECT_TRUE(at::equal(there.rows, at::cat(expected)));
      EXPECT_TRUE(at::equal(from_experts(exchange, 0, there.rows, there.route), given));
    });
  }
}

// Without others it computes what it would get if all did as it does.
TEST(ExpertExchange, ARankThatIsAloneIsEveryMember) {
  ExpertExchange exchange(4, 2, 1);
  EXPECT_EQ(exchange.own_experts().first, 2);
  const std::vector<int64_t> counts = {2, 0, 1, 3};
  const at::Tensor given = labelled_rows(1, counts);
  const ExpertRows there = to_experts(exchange, 0, given, counts);
  EXPECT_THAT(there.counts, testing::ElementsAre(3, 3));
  EXPECT_TRUE(at::equal(from_experts(exchange, 0, there.rows, there.route), given));
}

// Whatever comes: one clear error, and nothing is read that is not there.
TEST(ExpertExchange, RefusesMessagesThatCannotBe) {
  const auto answer_to = [](link::Payload message) {
    MemoryHub hub;
    MemoryMessenger messenger(hub, 0);
    ExpertExchange exchange(4, 2, 0);
    exchange.join({.ranks = {0, 1}, .own = 0, .messenger = &messenger});
    exchange.begin_iteration(3);
    hub.put(1, 0, {.iteration = 3, .tensor = kExpertTensor + 1}, std::move(message));
    const Status status = guarded("exchanging rows", [&]() -> Status {
      to_experts(exchange, 0, labelled_rows(0, {1, 1, 1, 1}), {1, 1, 1, 1});
      return {};
    });
    return status ? std::string() : status.error().text();
  };
  const auto message = [](std::vector<int64_t> counts, size_t bytes) {
    const auto head = std::as_bytes(std::span(counts));
    link::Payload out(head.begin(), head.end());
    out.resize(out.size() + bytes);
    return out;
  };
  constexpr size_t kRow = 3 * sizeof(double);
  EXPECT_EQ(answer_to(message({1, 2}, 3 * kRow)), "");
  EXPECT_EQ(answer_to(message({0, 0}, 0)), "");
  for (const link::Payload& wrong :
       {link::Payload{}, message({1}, 0), message({1, 2}, 2 * kRow), message({1, 2}, 3 * kRow + 1),
        message({-1, 4}, 3 * kRow), message({INT64_MAX, 1}, kRow), message({0, 0}, kRow),
        message({INT64_MAX / 24 + 1, 0}, kRow)}) {
    EXPECT_THAT(answer_to(wrong), HasSubstr("rows for experts came in")) << wrong.size();
  }
  Random random(11);
  for (int turn = 0; turn < 500; ++turn) {
    link::Payload any = message({1, 2}, 3 * kRow);
    any.resize(random.below(any.size() + 2));
    if (!any.empty()) any[random.below(any.size())] = static_cast<std::byte>(random.below(256));
    answer_to(std::move(any));
  }
}

TEST(ExpertExchange, AMemberThatIsLostEndsIt) {
  MemoryHub hub;
  hub.lose(1);
  MemoryMessenger messenger(hub, 0);
  ExpertExchange exchange(4, 2, 0);
  exchange.join({.ranks = {0, 1}, .own = 0, .messenger = &messenger});
  const Status status = guarded("exchanging rows", [&]() -> Status {
    to_experts(exchange, 0, labelled_rows(0, {1, 1, 1, 1}), {1, 1, 1, 1});
    return {};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kLostPeer);
}

}  // namespace
}  // namespace tombolo::train
