// Two ranks that share a toy's layers over real endpoints, and a front at the first of them.
#include "perform/worker/shard_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "perform/generate/front_message.h"
#include "perform/handover/decode_front.h"
#include "perform/handover/decode_worker.h"
#include "perform/worker/serve_prompts.h"
#include "support/test_endpoints.h"
#include "support/toy_shard.h"

namespace tombolo::worker {
namespace {

using generate::FrontMessage;
using generate::FrontWord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TwoRanks : public transport::EndpointTest {
 protected:
  void SetUp() override {
    for (int32_t rank = 0; rank < 2; ++rank) ends_.push_back(endpoint(rank));
    link(*ends_[0], 0, *ends_[1], 1);
    // Rank 1 comes first: it has two of the three layers, and meets the front.
    const std::vector<int32_t> ranks = {1, 0};
    for (int32_t rank = 0; rank < 2; ++rank) {
      ShardRing ring(ranks, rank, *ends_[static_cast<size_t>(rank)]);
      auto shard = std::make_unique<generate::ToyShard>(clock_, SimDuration{1000}, model_,
                                                        ring.slice(model_));
      auto made = prompt_filler(std::move(shard), {.kv_bytes = 16 * 10, .requests_max = 4}, path_,
                                handover::HostServices{clock_}, {}, std::move(ring));
      ASSERT_TRUE(made) << made.error().text();
      fillers_.push_back(std::move(*made));
    }
    front_ = connect();
  }
  void TearDown() override { close(front_); }

  int connect() {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path_.copy(at.sun_path, path_.size());
    const int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(out, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    return out;
  }
  void ask(const FrontMessage& message) {
    const std::string line = to_line(message) + "\n";
    EXPECT_EQ(send(front_, line.data(), line.size(), 0), std::ssize(line));
  }
  // Ranks that do nothing but wait.
  void serve_once() {
    for (size_t rank = 0; rank < 2; ++rank) {
      const auto wanted = fillers_[rank]->awaited();
      const auto came = ends_[rank]->receive_any({&*wanted, 1}, clock_.now());
      if (came) {
        EXPECT_TRUE(fillers_[rank]->take(came->message.payload));
      }
      fillers_[rank]->fill(kNever);
    }
  }
  // The front's next message, if it is there by now.
  std::optional<generate::WorkerMessage> hear() {
    serve_once();
    char bytes[4096];
    const ssize_t got = recv(front_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) {
      EXPECT_TRUE(lines_.add({bytes, static_cast<size_t>(got)}));
    }
    const auto line = lines_.next();
    return line ? std::optional(generate::parse_worker(*line).value()) : std::nullopt;
  }
  // Until the front hears that word.
  std::vector<generate::WorkerMessage> hear_until(generate::WorkerWord word) {
    std::vector<generate::WorkerMessage> out;
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    while (clock_.now() < end) {
      const auto message = hear();
      if (message) out.push_back(*message);
      if (message && message->kind == word) return out;
    }
    ADD_FAILURE() << "nobody says so";
    return out;
  }
  // Whether it is admitted or refused.
  generate::WorkerMessage hear_one(int64_t id) {
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    while (clock_.now() < end) {
      if (const auto message = hear(); message && message->id == id) return *message;
    }
    ADD_FAILURE() << "nobody says so";
    return {};
  }
  std::vector<int64_t> answer(int64_t id) {
    ask({.request = {.id = id, .tokens = {3, 4}, .tokens_max = 4}});
    std::vector<int64_t> out;
    for (const auto& message : hear_until(generate::WorkerWord::kLength))
      if (message.kind == generate::WorkerWord::kToken) out.push_back(message.token);
    return out;
  }

  const std::string path_ = fmt::format("/tmp/tombolo-ring-{}.socket", getpid());
  const model::Model model_ = generate::toy_model();
  std::vector<std::unique_ptr<transport::Endpoint>> ends_;
  std::vector<std::unique_ptr<stage::Filler>> fillers_;
  generate::Lines lines_;
  int front_ = -1;
};

TEST_F(TwoRanks, AnswerAsOneDoes) {
  const auto ready = hear_until(generate::WorkerWord::kReady);
  // Three layers of a number each, keys and values; ten tokens have room where two layers are.
  EXPECT_EQ(ready.back().facts->kv_bytes_per_token, 24);
  EXPECT_EQ(ready.back().facts->kv_bytes_max, 24 * 10);
  EXPECT_EQ(ready.back().facts->weight_bytes, 4 * model::parameters(model_));
  EXPECT_THAT(answer(1), ElementsAre(7, 4, 8, 6));
  ask({.request = {.id = 2, .tokens = std::vector<int64_t>(10, 1), .tokens_max = 2}});
  EXPECT_THAT(hear_until(generate::WorkerWord::kRefused).back().message, HasSubstr("176 bytes"));
}

// With what it asked for: the next one has all of the memory, and none of its answers.
TEST_F(TwoRanks, AFrontThatLeavesTakesItsPromptsAlong) {
  for (int64_t i = 0; i < 5; ++i) {
    ask({.request = {.id = 1, .tokens = {1, 1, 1, 1, 1}, .tokens_max = 6}});
    hear_until(i % 2 == 0 ? generate::WorkerWord::kToken : generate::WorkerWord::kAdmitted);
    close(front_);
    fillers_[1]->fill(kNever);
    front_ = connect();
    lines_ = {};
  }
  EXPECT_THAT(answer(1), ElementsAre(7, 4, 8, 6));
}

// With a decode worker behind them: both send it what they have of a prompt.
class TwoReaders : public TwoRanks {
 protected:
  void SetUp() override {
    TwoRanks::SetUp();
    auto worker = handover::DecodeWorker::listen(
        whole_, {}, place_, [this](const std::string&) { ++fronts_gone_; },
        handover::HostServices{clock_});
    ASSERT_TRUE(worker) << worker.error().text();
    worker_ = std::move(*worker);
    place_.port = worker_->port();
    decode_ = std::thread([this] { EXPECT_TRUE(worker_->serve(stopped_)); });
  }
  void TearDown() override {
    stop();
    TwoRanks::TearDown();
  }
  void stop() {
    stopped_ = true;
    if (decode_.joinable()) decode_.join();
  }
  // The next front, which has linked all.
  std::unique_ptr<handover::DecodeFront> link_all() {
    std::unique_ptr<handover::DecodeFront> out;
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    while (!out && clock_.now() < end) {  // the worker may not listen again yet
      auto front = handover::DecodeFront::open(
          place_,
          [this](const generate::WorkerMessage& message) {
            const std::lock_guard lock(mutex_);
            heard_.push_back(message);
          },
          [](const std::string&) {}, handover::HostServices{clock_});
      if (front) out = std::move(*front);
    }
    EXPECT_TRUE(out);
    ask({.kind = FrontWord::kDecode, .decode = place_});
    hear_until(generate::WorkerWord::kLinked);
    return out;
  }
  // The front leaves, the worker notices, and another one comes. Who linked to the worker before it has noticed would
  // be lost with those who have gone.
  void leave() {
    const int before = fronts_gone_;
    close(front_);
    fillers_[1]->fill(kNever);
    front_ = connect();
    lines_ = {};
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    while (fronts_gone_ == before && clock_.now() < end) serve_once();
    EXPECT_NE(fronts_gone_, before) << "the decode worker does not notice";
    const std::lock_guard lock(mutex_);
    heard_.clear();
  }
  // The decode worker's tokens behind the first one, which the ranks gave.
  std::vector<int64_t> continued(handover::DecodeFront& front, int64_t id) {
    generate::Request request{
        .id = id, .tokens = {1, 1, 1, 1, 1, 2}, .tokens_max = 4, .share = generate::Share::kDecode};
    EXPECT_TRUE(front.say({.request = request}));
    await(id, generate::WorkerWord::kAdmitted);
    request.share = generate::Share::kPrefill;
    // The memory of the one before is free when both ranks have sent it.
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    do {
      ask({.request = request});
    } while (hear_one(id).kind == generate::WorkerWord::kRefused && clock_.now() < end);
    EXPECT_EQ(hear_until(generate::WorkerWord::kToken).back().token, 7);
    return await(id, generate::WorkerWord::kLength);
  }
  std::vector<int64_t> await(int64_t id, generate::WorkerWord word) {
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    std::vector<int64_t> tokens;
    while (clock_.now() < end) {
      serve_once();
      const std::lock_guard lock(mutex_);
      tokens.clear();
      for (const auto& message : heard_) {
        if (message.id != id) continue;
        if (message.kind == generate::WorkerWord::kToken) tokens.push_back(message.token);
        if (message.kind == word) return tokens;
      }
    }
    ADD_FAILURE() << "the decode worker does not say so";
    return tokens;
  }

  generate::DecodePlace place_{.host = "127.0.0.1", .token = "00112233445566778899aabbccddeeff"};
  ManualClock clock_of_decode_;
  generate::ToyShard whole_{clock_of_decode_, SimDuration{1000}};
  std::unique_ptr<handover::DecodeWorker> worker_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> fronts_gone_{0};
  std::thread decode_;
  std::mutex mutex_;
  std::vector<generate::WorkerMessage> heard_;
};

// Its memory is free again when both have sent it: each prompt takes more than half.
TEST_F(TwoReaders, AnswerAsOneDoes) {
  const auto front = link_all();
  for (int64_t id = 1; id <= 5; ++id) EXPECT_THAT(continued(*front, id), ElementsAre(4, 8, 6));
}

// The ranks continue, whatever a front sends too early, or whatever its prompt ids are.
TEST_F(TwoReaders, NothingIsReadBeforeAllAreLinked) {
  ask({.kind = FrontWord::kDecode, .decode = place_});
  ask({.request = {.id = 1, .tokens = {3}, .tokens_max = 4, .share = generate::Share::kPrefill}});
  EXPECT_THAT(hear_until(generate::WorkerWord::kRefused).back().message, HasSubstr("not linked"));
  hear_until(generate::WorkerWord::kLinked);
  ask({.request = {.id = -5, .tokens = {3}, .tokens_max = 4, .share = generate::Share::kPrefill}});
  EXPECT_EQ(hear_until(generate::WorkerWord::kToken).back().id, -5);
  leave();
  const auto front = link_all();
  EXPECT_THAT(continued(*front, 7), ElementsAre(4, 8, 6));
}

TEST_F(TwoReaders, ServeTheNextFront) {
  for (int64_t turn = 0; turn < 3; ++turn) {
    const auto front = link_all();
    EXPECT_THAT(continued(*front, 1), ElementsAre(4, 8, 6));
    leave();
  }
}

TEST_F(TwoReaders, SayThatTheDecodeWorkerIsLost) {
  const auto front = link_all();
  stop();
  ask({.request = {
           .id = 1, .tokens = {3, 4}, .tokens_max = 4, .share = generate::Share::kPrefill}});
  EXPECT_FALSE(hear_until(generate::WorkerWord::kFailed).back().message.empty());
}

TEST(ShardRing, NamesItsPeers) {
  EXPECT_THAT(ring_peers({4}, 4), IsEmpty());
  EXPECT_THAT(ring_peers({4, 2}, 2), ElementsAre(4));
  EXPECT_THAT(ring_peers({5, 1, 3, 0}, 1), ElementsAre(3, 5));
  EXPECT_THAT(ring_peers({5, 1, 3, 0}, 5), ElementsAre(0, 1));
  EXPECT_DEATH(ring_peers({4, 2}, 3), "rank 3 answers no prompts");
}

}  // namespace
}  // namespace tombolo::worker
