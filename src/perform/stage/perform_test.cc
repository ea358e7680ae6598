#include "perform/stage/perform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>

#include "perform/kernels/emulated_kernels.h"
#include "perform/kernels/neighbours.h"
#include "perform/stage/machine_load.h"
#include "support/test_plan.h"
#include "support/virtual_run.h"

namespace tombolo::stage {
namespace {

using link::Received;
using link::Tag;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Diary = std::vector<std::string>;

// Writes down what it is asked to do; its payloads are one byte that says what they are.
class DiaryKernels : public kernels::Kernels {
 public:
  explicit DiaryKernels(Diary& diary) : diary_(diary) {}
  Status join_replicas(const kernels::Replicas&) override { return {}; }
  Status begin_iteration(int64_t iteration) override {
    diary_.push_back(fmt::format("begin {}", iteration));
    return {};
  }
  Result<kernels::Payload> forward(int32_t s, int64_t m, kernels::Payload input) override {
    diary_.push_back(fmt::format("{}F{}({})", s, m, text(input)));
    if (activity_) reports_.push_back(activity_->report());
    return payload('a' + m);
  }
  Status recompute(int32_t s, int64_t m) override {
    diary_.push_back(fmt::format("{}R{}", s, m));
    return {};
  }
  Result<kernels::Payload> backward(int32_t s, int64_t m, kernels::Payload gradient) override {
    diary_.push_back(fmt::format("{}B{}({})", s, m, text(gradient)));
    return payload('A' + m);
  }
  Result<kernels::Payload> backward_input(int32_t s, int64_t m,
                                          kernels::Payload gradient) override {
    diary_.push_back(fmt::format("{}I{}({})", s, m, text(gradient)));
    return payload('A' + m);
  }
  Status backward_weight(int32_t s, int64_t m) override {
    diary_.push_back(fmt::format("{}W{}", s, m));
    return {};
  }
  Status reduce_gradients(int32_t s) override {
    diary_.push_back(fmt::format("{}REDUCE", s));
    return {};
  }
  Status update(int32_t s) override {
    diary_.push_back(fmt::format("{}U", s));
    ++updates_;
    state_[0].bytes[0] = static_cast<std::byte>('a' + updates_);
    return {};
  }
  std::optional<double> loss() const override { return loss_; }
  int64_t evaluation_batches() const override { return batches_; }
  Result<kernels::Payload> evaluate(int32_t s, int64_t batch, kernels::Payload input) override {
    diary_.push_back(fmt::format("{}E{}({})", s, batch, text(input)));
    return payload('e');
  }
  std::optional<double> evaluation_loss() const override { return 2.5; }
  Result<std::string> weights_digest() const override { return digest_; }
  Result<std::vector<kernels::TensorView>> state() const override {
    return kernels::views_of(state_);
  }
  Status load(const kernels::TensorSource&) override { return {}; }

  std::optional<double> loss_;
  int64_t batches_ = 0;
  const kernels::Activity* activity_ = nullptr;
  std::vector<kernels::Activity::Report> reports_;  // of it, in forward passes
  std::string digest_ = "same";

 private:
  static kernels::Payload payload(int64_t letter) { return {static_cast<std::byte>(letter)}; }
  static std::string text(const kernels::Payload& payload) {
    return payload.empty() ? "" : std::string(1, static_cast<char>(payload[0]));
  }
  Diary& diary_;
  int updates_ = 0;
  // After 0, 1, ... updates: 'a', 'b', ...
  std::vector<kernels::NamedTensor> state_{{"layers.0.x", "U8", {1}, payload('a')}};
};

// Writes down what is sent, and hands out what the other stage would have sent.
class DiaryMessenger : public kernels::Messenger {
 public:
  DiaryMessenger(Diary& diary, Clock& clock) : diary_(diary), clock_(clock) {}
  Status send(int32_t peer, Tag tag, kernels::Payload payload) override {
    diary_.push_back(fmt::format("send {} to {}", name(tag, payload), peer));
    return {};
  }
  Result<Came> receive_any(std::span<const Awaited> wanted) override {
    const auto& [peer, tag] = wanted.front();
    if (lost_) return fail({ErrorCode::kLostPeer, "lost rank 1"});
    const bool gradient = tag.tensor % 2 == 1;
    const auto microbatch = static_cast<int>(tag.tensor % kernels::kTensorsPerBoundary / 2 % 10);
    const kernels::Payload payload = {static_cast<std::byte>((gradient ? 'P' : 'p') + microbatch)};
    diary_.push_back(fmt::format("receive {} from {}", name(tag, payload), peer));
    return Came{0, {payload, clock_.now() - SimDuration{500}, clock_.now()}};
  }
  bool lost_ = false;

 private:
  static std::string name(Tag tag, const kernels::Payload& payload) {
    const uint64_t boundary =
        tag.tensor % kernels::kEvaluationTensor / kernels::kTensorsPerBoundary;
    return fmt::format("{}{}/{} {}", tag.iteration,
                       boundary == 0 ? "" : fmt::format(" over {}", boundary),
                       tag.tensor % kernels::kTensorsPerBoundary % 100,
                       payload.empty() ? '-' : static_cast<char>(payload[0]));
  }
  Diary& diary_;
  Clock& clock_;
};

class Performing : public ::testing::Test {
 protected:
  Result<trace::Trace> perform_rank(int32_t rank, const plan::Plan& plan, const Hooks& hooks = {}) {
    const auto schedule = schedule::build(plan);
    CHECK(schedule, "{}", schedule.error().text());
    return perform(plan, schedule->ranks[rank], {.rank = rank, .origin = clock_.now()}, kernels_,
                   messenger_, clock_, hooks);
  }

  ManualClock clock_;
  Diary diary_;
  DiaryKernels kernels_{diary_};
  DiaryMessenger messenger_{diary_, clock_};
};

// 1F1B, two stages, two microbatches: the first stage warms up with one forward more than the
// second. Tensor 2m is microbatch m's activation, 2m + 1 its gradient.
TEST_F(Performing, TheFirstStageDoesWhatTheScheduleSays) {
  ASSERT_TRUE(perform_rank(0, make_test_plan({.steps = 1})));
  EXPECT_THAT(diary_, ElementsAre("begin 1", "0F0()", "send 1/0 a to 1", "0F1()", "send 1/2 b to 1",
                                  "receive 1/1 P from 1", "0B0(P)", "receive 1/3 Q from 1",
                                  "0B1(Q)", "0U"));
}

TEST_F(Performing, TheLastStageDoesWhatTheScheduleSays) {
  ASSERT_TRUE(perform_rank(1, make_test_plan({.steps = 1})));
  EXPECT_THAT(diary_,
              ElementsAre("begin 1", "receive 1/0 p from 0", "1F0(p)", "1B0()", "send 1/1 A to 0",
                          "receive 1/2 q from 0", "1F1(q)", "1B1()", "send 1/3 B to 0", "1U"));
}

TEST_F(Performing, TheReceiverDrawsTheLink) {
  plan::Plan plan = make_test_plan({.microbatches = 1, .steps = 1});
  const auto bytes_of = [&] { return perform_rank(1, plan)->intervals.front().bytes; };
  EXPECT_EQ(bytes_of(), 0) << "without a model a message has no bytes, whatever stands for it";
  plan.model.layers = 2;
  EXPECT_EQ(bytes_of(), 1);
  const auto trace = perform_rank(1, plan);
  ASSERT_TRUE(trace);
  // One message came, by the sender's action: rank 0 sent it, this rank is the peer.
  ASSERT_EQ(trace->intervals.size(), 4u);  // 0SEND_F0, 1F0, 1B0, 1U
  const trace::Interval& link = trace->intervals[0];
  EXPECT_EQ(link.lane, trace::Lane::kLink);
  EXPECT_EQ(action::to_text(link.action), "0SEND_F0");
  EXPECT_EQ(link.rank, 0);
  EXPECT_EQ(link.peer, 1);
  EXPECT_EQ((link.end - link.start).ns, 500);
  EXPECT_EQ(link.iteration, 1);
}

TEST_F(Performing, LossesAreRecordedAndReported) {
  kernels_.loss_ = 5.5;
  std::vector<double> reported;
  const Hooks hooks{.iteration = [&](const IterationReport& report) {
    reported.push_back(*report.loss);
    return Status{};
  }};
  const auto trace = perform_rank(1, make_test_plan({.steps = 2}), hooks);
  ASSERT_TRUE(trace);
  EXPECT_THAT(reported, ElementsAre(5.5, 5.5));
  ASSERT_EQ(trace->records.size(), 2u);
  EXPECT_EQ(trace->records[1].name, "loss");
  EXPECT_EQ(trace->records[1].iteration, 2);
}

TEST_F(Performing, ALossThatIsNoNumberEndsTheRun) {
  kernels_.loss_ = std::numeric_limits<double>::quiet_NaN();
  const auto trace = perform_rank(1, make_test_plan({.steps = 2}));
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().text(), HasSubstr("the loss of iteration 1 is no number"));
}

TEST_F(Performing, EvaluationPassesThroughTheStages) {
  kernels_.batches_ = 2;
  plan::Plan plan = make_test_plan({.microbatches = 1, .steps = 3});
  plan.run.evaluate_every = 2;
  double reported = 0;
  const Hooks hooks{.evaluation = [&](const Evaluation& evaluation) {
    reported = evaluation.loss;
    return Status{};
  }};
  const auto trace = perform_rank(1, plan, hooks);
  ASSERT_TRUE(trace);
  EXPECT_EQ(std::count(diary_.begin(), diary_.end(), "begin 3"), 1);
  // After step 2, and after the last one.
  EXPECT_EQ(std::count_if(diary_.begin(), diary_.end(),
                          [](const std::string& line) { return line.starts_with("1E"); }),
            4);
  EXPECT_EQ(reported, 2.5);
}

// Sixteen batches may be under way; the sender waits for the acknowledgement of batch 0 before it
// sends batch 16, and asks for no acknowledgement that no batch waits for.
TEST_F(Performing, EvaluationDoesNotFloodTheLink) {
  kernels_.batches_ = 18;
  ASSERT_TRUE(perform_rank(0, make_test_plan({.microbatches = 1, .steps = 1})));
  const auto sent = [](const std::string& line) { return line.starts_with("send 1/"); };
  const auto first_wait = std::find_if(diary_.begin(), diary_.end(), [](const std::string& line) {
    return line.starts_with("receive 1/") && !line.starts_with("receive 1/1 ");
  });
  ASSERT_NE(first_wait, diary_.end());
  // One of training and sixteen of evaluation before it, two after it.
  EXPECT_EQ(std::count_if(diary_.begin(), first_wait, sent), 17);
  EXPECT_EQ(std::count_if(first_wait, diary_.end(), sent), 2);
}

// Of one stage: F, B, F, B, U of each iteration, then a held-out batch.
TEST_F(Performing, WhatIsDoneIsCountedWithinAnIterationAndNothingWaits) {
  const plan::Plan plan = make_test_plan({.stages = 1, .steps = 2});
  const auto schedule = schedule::build(plan);
  kernels::Activity activity;
  kernels_.activity_ = &activity;
  kernels_.batches_ = 1;
  ASSERT_TRUE(perform(plan, schedule->ranks[0], {.rank = 0, .activity = &activity}, kernels_,
                      messenger_, clock_, {}));
  std::vector<int64_t> done;
  for (const kernels::Activity::Report& report : kernels_.reports_) {
    EXPECT_FALSE(report.waits);
    done.push_back(report.done);
  }
  EXPECT_THAT(done, ElementsAre(0, 2, 5, 7));
  EXPECT_EQ(activity.report().done, 11);
  EXPECT_TRUE(activity.report().waits) << "it has nothing left to do";
}

// Rank 3 of 2 stages x 2 replicas: stage 1, replica 1. Its pipeline goes through rank 1.
TEST_F(Performing, APipelineKeepsToItsReplica) {
  plan::Plan plan = make_test_plan({.microbatches = 1, .replicas = 2, .steps = 1});
  EXPECT_THAT(kernels::neighbours(plan, 3), ElementsAre(1, 2));
  EXPECT_THAT(kernels::neighbours(plan, 0), ElementsAre(1, 2));
  const auto trace = perform_rank(3, plan);
  ASSERT_TRUE(trace);
  EXPECT_THAT(diary_, ElementsAre("begin 1", "receive 1/0 p from 1", "1F0(p)", "1B0()",
                                  "send 1/1 A to 1", "1REDUCE", "1U"));
  const trace::Interval& sum = trace->intervals[3];
  EXPECT_EQ(action::to_text(sum.action), "1REDUCE_GRAD");
  EXPECT_EQ(sum.lane, trace::Lane::kCollective);
  EXPECT_EQ(sum.iteration, 1);
}

// ZB-V on two ranks: down and up again, so that rank 1 holds stages 1 and 2, between which nothing
// is sent. What leaves for rank 0 is the activation over boundary 2 and the gradient over 0.
TEST_F(Performing, NeighbouringStagesOfARankPassResultsOnWithoutAMessage) {
  const plan::Plan plan =
      make_test_plan({.microbatches = 1, .steps = 1, .schedule = "zb-v", .virtual_stages = 2});
  ASSERT_TRUE(perform_rank(1, plan));
  EXPECT_THAT(diary_, ElementsAre("begin 1", "receive 1/0 p from 0", "1F0(p)", "2F0(a)",
                                  "send 1 over 2/0 a to 0", "receive 1 over 2/1 P from 0", "2I0(P)",
                                  "2W0", "1I0(A)", "send 1/1 A to 0", "1W0", "1U", "2U"));
}

TEST_F(Performing, NeighboursFollowTheLayout) {
  // Down and up: 0 1 2 3 / 7 6 5 4. No rank has a link to itself, or two to one peer.
  const auto folded =
      make_test_plan({.stages = 4, .microbatches = 8, .schedule = "w", .virtual_stages = 2});
  EXPECT_THAT(kernels::neighbours(folded, 0), ElementsAre(1));
  EXPECT_THAT(kernels::neighbours(folded, 2), ElementsAre(1, 3));
  EXPECT_THAT(kernels::neighbours(folded, 3), ElementsAre(2));
  // Round and round: 0 1 / 2 3, of two pipelines. Stage 2 comes after stage 1, and its ranks have a
  // link anyway.
  const auto plan = make_test_plan({.stages = 2,
                                    .microbatches = 4,
                                    .replicas = 2,
                                    .schedule = "interleaved",
                                    .virtual_stages = 2});
  EXPECT_THAT(kernels::neighbours(plan, 3), ElementsAre(1, 2));
}

// Where embedding and head are one matrix, the ends of a pipeline talk to each other.
TEST_F(Performing, TheEndsOfAPipelineMeetWhereTheyHoldOneMatrix) {
  plan::Plan plan = make_test_plan({.stages = 3, .microbatches = 2, .replicas = 2, .ring = true});
  EXPECT_FALSE(plan.other_end(0)) << "nothing is tied";
  plan.model.tied_embeddings = true;
  plan.model.layers = 3;
  // Ranks 0 and 1 are stage 0, 4 and 5 the last one.
  EXPECT_EQ(plan.other_end(0), 4);
  EXPECT_EQ(plan.other_end(5), 1);
  EXPECT_FALSE(plan.other_end(2)) << "in the middle";
  EXPECT_THAT(kernels::neighbours(plan, 5), ElementsAre(1, 3, 4));
  plan.cluster.wan.pop_back();
  EXPECT_FALSE(plan.other_end(0)) << "the link from the last datacenter to the first is gone";
  EXPECT_THAT(kernels::neighbours(plan, 5), ElementsAre(3, 4));
  // Down and up again: both ends are of rank 0.
  plan = make_test_plan({.microbatches = 1, .schedule = "zb-v", .virtual_stages = 2});
  plan.model.tied_embeddings = true;
  EXPECT_FALSE(plan.other_end(0));
}

// A found schedule may hold a pipeline back, so that another one's transfers go first.
TEST_F(Performing, APipelineBeginsNoEarlierThanItIsReleased) {
  const plan::Plan plan = make_test_plan({.microbatches = 1, .steps = 2});
  const auto schedule = schedule::build(plan);
  ASSERT_TRUE(schedule);
  kernels::EmulatedKernels kernels(plan, 0, clock_);
  class Gradients : public kernels::Messenger {
   public:
    explicit Gradients(const plan::Plan& plan) : plan_(plan) {}
    Status send(int32_t, Tag, kernels::Payload) override { return {}; }
    Result<Came> receive_any(std::span<const Awaited> wanted) override {
      const auto iteration = static_cast<int64_t>(wanted.front().tag.iteration);
      return Came{0,
                  {kernels::pattern(kernels::payload_bytes(plan_), iteration, 0, 0, true), {}, {}}};
    }

   private:
    const plan::Plan& plan_;
  } messenger(plan);
  const auto trace = perform(plan, schedule->ranks[0], {.release = SimDuration{5'000'000}}, kernels,
                             messenger, clock_, {});
  ASSERT_TRUE(trace) << trace.error().text();
  std::vector<int64_t> starts;  // of forwards: 5 ms after 0, and after the end of F and B at 8 ms
  for (const trace::Interval& interval : trace->intervals) {
    if (interval.action.kind == action::ActionKind::kForward) starts.push_back(interval.start.ns);
  }
  EXPECT_THAT(starts, ElementsAre(5'000'000, 13'000'000));
}

TEST_F(Performing, ReplicasAreComparedEveryFewStepsAndAtTheEnd) {
  plan::Plan plan = make_test_plan({.microbatches = 1, .replicas = 2, .steps = 5});
  plan.run.compare_replicas_every = 2;
  kernels_.loss_ = 1.5;
  std::vector<int64_t> compared;
  const Hooks hooks{.iteration = [&](const IterationReport& report) {
    if (report.weights_digest == "same") compared.push_back(report.iteration);
    return Status{};
  }};
  const auto trace = perform_rank(3, plan, hooks);
  ASSERT_TRUE(trace);
  EXPECT_THAT(compared, ElementsAre(2, 4, 5));
  EXPECT_EQ(trace->records[0].name, "replica_loss");

  compared.clear();
  ASSERT_TRUE(perform_rank(1, make_test_plan({.steps = 2}), hooks)) << "no replicas";
  EXPECT_TRUE(compared.empty());
}

TEST_F(Performing, OneReplicaWritesTheCheckpoint) {
  const Hooks hooks{
      .shard = [&](int64_t, const state::Shard&) { return failed("a second shard"); }};
  const auto trace = perform_rank(
      1, make_test_plan({.replicas = 2, .checkpoints = "/nowhere", .every = 1}), hooks);
  EXPECT_TRUE(trace) << trace.error().text();
}

TEST_F(Performing, CheckpointsAreTakenEveryFewStepsAndAtTheEnd) {
  std::string folder = (std::filesystem::temp_directory_path() / "perform.XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  std::vector<int64_t> steps;
  const Hooks hooks{.shard = [&](int64_t step, const state::Shard& shard) {
    EXPECT_EQ(shard.file, state::shard_file(0, shard.digest));
    steps.push_back(step);
    return Status{};
  }};
  const auto trace =
      perform_rank(0, make_test_plan({.steps = 5, .checkpoints = folder, .every = 2}), hooks);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_THAT(steps, ElementsAre(2, 4, 5));
  EXPECT_EQ(action::to_text(trace->intervals.back().action), "0C");
  EXPECT_EQ(trace->intervals.back().iteration, 0);
}

// A disk that takes its time: the shard of step 2 is not written before step 3 is done, nor that of
// step 4 before step 5. A run that waited for its disk would not get that far.
TEST_F(Performing, IterationsGoOnWhileAShardIsWritten) {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t done = 0, writing = 0, most = 0;
  std::vector<int64_t> written;
  Hooks hooks;
  hooks.iteration = [&](const IterationReport& report) -> Status {
    const std::lock_guard lock(mutex);
    done = report.iteration;
    changed.notify_all();
    return {};
  };
  hooks.write = [&](int64_t step, state::CopyOnWriteState& state) -> Result<state::Shard> {
    std::unique_lock lock(mutex);
    most = std::max(most, ++writing);
    const bool went_on =
        changed.wait_for(lock, std::chrono::seconds(30), [&] { return done > step || done == 5; });
    --writing;
    if (!went_on) return failed("the run waits for its disk");
    EXPECT_EQ(static_cast<char>(state.next()[0]), 'a' + step) << "as it was after that step";
    EXPECT_TRUE(state.next().empty());
    return state::Shard{.file = "shard"};
  };
  hooks.shard = [&](int64_t step, const state::Shard&) -> Status {
    written.push_back(step);
    return {};
  };
  const auto trace =
      perform_rank(0, make_test_plan({.steps = 5, .checkpoints = "/nowhere", .every = 2}), hooks);
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_THAT(written, ElementsAre(2, 4, 5)) << "the last one was waited for";
  EXPECT_EQ(most, 1) << "two at once";
  for (const char* name : {"checkpoint_write_s", "checkpoint_held_s"}) {
    const auto named = [&](const auto& record) { return record.name == name; };
    EXPECT_EQ(std::count_if(trace->records.begin(), trace->records.end(), named), 3) << name;
  }
}

// The shard of step 2 is read no earlier than an update waits for it.
TEST_F(Performing, WithoutRoomForACopyAnUpdateWaitsForTheDisk) {
  std::promise<void> waits;
  int64_t notes = 0, done = 0;
  std::string written;
  Hooks hooks;
  hooks.iteration = [&](const IterationReport& report) -> Status {
    done = report.iteration;
    return {};
  };
  hooks.note = [&](const std::string& note) {
    EXPECT_EQ(done, 2) << "a pass of step 3 waited";
    EXPECT_THAT(note, HasSubstr("no room for a copy of the 1 B that are left of step 2"));
    ++notes;
    waits.set_value();
  };
  hooks.write = [&](int64_t step, state::CopyOnWriteState& state) -> Result<state::Shard> {
    if (step == 2) waits.get_future().wait();
    written += static_cast<char>(state.next()[0]);
    return state::Shard{.file = "shard"};
  };
  const plan::Plan plan = make_test_plan({.steps = 5, .checkpoints = "/nowhere", .every = 2});
  const auto schedule = schedule::build(plan);
  ASSERT_TRUE(schedule);
  const auto trace =
      perform(plan, schedule->ranks[0],
              {.rank = 0, .origin = clock_.now(), .has_room = [](int64_t) { return false; }},
              kernels_, messenger_, clock_, hooks);
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(written, "cef") << "after 2, 4 and 5 updates";
  EXPECT_EQ(notes, 1) << "once a run";
}

// Whether it shows in the next iteration, at the next checkpoint or at the end: once, as it was.
TEST_F(Performing, ADiskThatFailsStopsTheRun) {
  for (const int64_t failing : {2, 4, 5}) {
    const Hooks hooks{.write = [&](int64_t step, state::CopyOnWriteState&) -> Result<state::Shard> {
      if (step == failing) return unusable("the disk is full", "another one");
      return state::Shard{.file = "shard"};
    }};
    const auto trace =
        perform_rank(0, make_test_plan({.steps = 5, .checkpoints = "/nowhere", .every = 2}), hooks);
    ASSERT_FALSE(trace) << failing;
    EXPECT_EQ(trace.error().code, ErrorCode::kUnusable);
    EXPECT_EQ(trace.error().text(), "the disk is full\n  try another one");
  }
}

// With a hook that decides, training continues; a lost peer is not treated as a disk error.
TEST_F(Performing, AMissedCheckpointIsTold) {
  std::vector<std::string> story;
  Hooks hooks;
  hooks.write = [&](int64_t step, state::CopyOnWriteState&) -> Result<state::Shard> {
    if (step == 4) return unusable("the disk is full");
    return state::Shard{.file = "shard"};
  };
  hooks.shard = [&](int64_t step, const state::Shard&) {
    story.push_back(fmt::format("{} written", step));
    return Status();
  };
  hooks.missed = [&](int64_t step, const Error& error) {
    story.push_back(fmt::format("{} missed: {}", step, error.message));
    return Status();
  };
  const plan::Plan plan = make_test_plan({.steps = 5, .checkpoints = "/nowhere", .every = 2});
  const auto trace = perform_rank(0, plan, hooks);
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_THAT(story, ElementsAre("2 written", "4 missed: the disk is full", "5 written"));
  EXPECT_EQ(std::count_if(trace->records.begin(), trace->records.end(),
                          [](const auto& record) { return record.name == "checkpoint_write_s"; }),
            2);
  hooks.write = [](int64_t, state::CopyOnWriteState&) -> Result<state::Shard> {
    return failed("no state");
  };
  EXPECT_EQ(perform_rank(0, plan, hooks).error().message, "no state");
}

TEST_F(Performing, ALostPeerIsNamedWithWhatWasDone) {
  messenger_.lost_ = true;
  const auto trace = perform_rank(1, make_test_plan({}));
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(trace.error().text(), HasSubstr("while performing 1RECV_F0 of iteration 1"));
}

TEST_F(Performing, TheTraceIsBounded) {
  const plan::Plan plan = make_test_plan({.steps = 10});
  const auto schedule = schedule::build(plan);
  ASSERT_TRUE(schedule);
  const auto trace = perform(plan, schedule->ranks[0], {.rank = 0, .intervals_max = 20}, kernels_,
                             messenger_, clock_, {});
  ASSERT_TRUE(trace);
  // Whole iterations of 7 intervals (2 F, 2 links, 2 B, U) as long as all 9 actions are sure to
  // fit.
  EXPECT_EQ(trace->intervals.size(), 14u);
  EXPECT_EQ(trace->intervals.back().iteration, 2);
}

// Two stages x three replicas in virtual time.
class PerformingVirtually : public ::testing::Test {
 protected:
  std::vector<trace::Trace> perform_all(const plan::Plan& plan) {
    auto parts = perform_virtually(plan);
    EXPECT_TRUE(parts) << parts.error().text();
    return parts ? std::move(*parts) : std::vector<trace::Trace>{};
  }
};

// F = 1 ms, B = 2 ms, 1 ms from stage to stage, one microbatch: stage 1 ends B at 1 + 1 + 3 ms,
// stage 0 at 5 + 1 + 2 ms. The sum lasts 4 ms for all replicas of a stage at once.
TEST_F(PerformingVirtually, AnImaginedReductionLastsAsLongAsTheJobSays) {
  const auto parts =
      perform_all(make_test_plan({.microbatches = 1, .replicas = 3, .steps = 1, .reduce = "4 ms"}));
  ASSERT_EQ(parts.size(), 6u);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const trace::Interval& sum = parts[rank].intervals.end()[-2];
    EXPECT_EQ(action::to_text(sum.action), rank < 3 ? "0REDUCE_GRAD" : "1REDUCE_GRAD");
    EXPECT_EQ(sum.start.ns, rank < 3 ? 8'000'000 : 5'000'000);
    EXPECT_EQ((sum.end - sum.start).ns, 4'000'000);
  }
}

TEST(WaitsForTheWan, AreThoseForOtherDatacenters) {
  // As above: the second rank has its input at 2 ms; the first one is through at 1 ms and has its
  // gradient at 6 ms.
  std::mutex mutex;
  std::map<int32_t, int64_t> waits_ms;
  const auto reported = [&](int32_t rank, const IterationReport& report) {
    std::lock_guard lock(mutex);
    waits_ms[rank] = report.wan_wait.ns / 1'000'000;
  };
  plan::Plan plan = make_test_plan({.microbatches = 1, .steps = 1});
  ASSERT_TRUE(perform_virtually(plan, reported));
  EXPECT_EQ(waits_ms, (std::map<int32_t, int64_t>{{0, 5}, {1, 2}}));

  // Sums with replicas in the same datacenter are no such wait; the passes are those of before.
  plan = make_test_plan({.microbatches = 1, .replicas = 2, .steps = 1, .reduce = "5 ms"});
  ASSERT_TRUE(perform_virtually(plan, reported));
  EXPECT_EQ(waits_ms.at(2), waits_ms.at(3));
  EXPECT_EQ(waits_ms.at(0), 5);
}

// 120 MB over three replicas on one node, 300 GBps and 1 us: 4 x (40 MB / 300 GBps + 1 us). With
// bytes and rates divided by 1000 as much as without.
TEST_F(PerformingVirtually, ARingLastsAsLongAsTheLawSays) {
  for (const double scale : {1000.0, 4000.0}) {
    plan::Plan plan = make_test_plan({.microbatches = 1, .replicas = 3, .steps = 1});
    plan.run.byte_scale = scale;
    plan.cost_source = plan::CostSource::kRoofline;
    plan.wan_transfer.reset();
    plan.boundary = 12_MB;
    const Seconds law = 4 * (40_MB / 300_GBps + 1_us);
    for (plan::Stage& stage : plan.stages) {
      stage.gradients = 120_MB;
      stage.cost.reduce = law;
    }
    const auto parts = perform_all(plan);
    ASSERT_EQ(parts.size(), 6u);
    for (const trace::Trace& part : parts) {
      const trace::Interval& sum = part.intervals.end()[-2];
      // Each of the four steps is rounded to a nanosecond.
      EXPECT_NEAR(static_cast<double>((sum.end - sum.start).ns), law.value * 1e9, 4);
      EXPECT_EQ(sum.bytes, static_cast<int64_t>(120e6 / scale));
      EXPECT_EQ(part.records[0].name, kLateRecord);
      EXPECT_EQ(part.records[0].value, 0);
    }
  }
}

// The real thing but for processes: four ranks in four threads, real sockets, every byte checked.
// The links have one, three and sixteen connections.
TEST(PerformingOverLoopback, FourRanksInARowGetWhatWasSentToThem) {
  plan::Plan plan = make_test_plan(
      {.stages = 4, .microbatches = 6, .steps = 3, .forward = "100 us", .backward = "200 us"});
  plan.cluster.wan[1].connections = 3;
  plan.cluster.wan[2].connections = 16;
  const auto schedule = schedule::build(plan);
  ASSERT_TRUE(schedule);
  SystemClock clock;
  const auto token = link::Token::random();
  ASSERT_TRUE(token);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  for (int32_t rank = 0; rank < 4; ++rank) {
    auto endpoint = transport::Endpoint::create(
        {.identity = {.rank = rank, .ranks = 4, .token = *token}}, clock);
    ASSERT_TRUE(endpoint);
    endpoints.push_back(std::move(*endpoint));
  }
  const SimTime hang_guard = clock.now() + SimDuration{60'000'000'000};
  const auto live = [&](int32_t rank) -> Result<trace::Trace> {
    for (const int32_t peer : kernels::neighbours(plan, rank)) {
      const auto shape = kernels::shape_between(plan, rank, peer);
      TRY(rank < peer ? endpoints[rank]->connect(peer, "127.0.0.1", endpoints[peer]->port(), shape,
                                                 hang_guard)
                      : endpoints[rank]->await_peer(peer, shape, hang_guard));
    }
    kernels::EmulatedKernels kernels(plan, rank, clock, {.check_every_byte = true});
    kernels::EndpointMessenger messenger(*endpoints[rank]);
    auto trace =
        TRY(perform(plan, schedule->ranks[rank], {.rank = rank}, kernels, messenger, clock, {}));
    TRY(endpoints[rank]->close(hang_guard));
    return trace;
  };
  std::vector<std::future<Result<trace::Trace>>> ranks;
  for (int32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::async(std::launch::async, live, rank));
  }
  int64_t messages = 0;
  for (auto& rank : ranks) {
    const auto trace = rank.get();
    ASSERT_TRUE(trace) << trace.error().text();
    for (const trace::Interval& interval : trace->intervals)
      messages += interval.lane == trace::Lane::kLink ? 1 : 0;
  }
  // 3 boundaries x 2 directions x 6 microbatches x 3 iterations.
  EXPECT_EQ(messages, 3 * 2 * 6 * 3);
}

using PerformingDeathTest = Performing;

TEST_F(PerformingDeathTest, ScheduleAndRankAreOfThePlan) {
  const plan::Plan plan = make_test_plan({.steps = 1});
  const auto perform_order = [&](int32_t rank, const schedule::RankActions& order) {
    return perform(plan, order, {.rank = rank}, kernels_, messenger_, clock_, {}).has_value();
  };
  EXPECT_DEATH(perform_order(2, {}), "rank 2 of a Plan for 2");
  EXPECT_DEATH(kernels::neighbours(plan, -1), "rank -1 of a Plan for 2");
  schedule::RankActions order = schedule::build(plan)->ranks[0];
  std::erase_if(order, [](const auto& action) { return action::is_send(action.kind); });
  EXPECT_DEATH(perform_order(0, order), "2 results of iteration 1 were not used");
}

}  // namespace
}  // namespace tombolo::stage
