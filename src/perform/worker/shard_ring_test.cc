// Two ranks that share a toy's layers over real endpoints, and a front at the first of them.
#include "perform/worker/shard_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "perform/generate/front_message.h"
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
      auto shard = std::make_unique<generate::ToyShard>(clock_of_toys_, SimDuration{1000}, model_,
                                                        ring.slice(model_));
      auto made = prompt_filler(std::move(shard), {.kv_bytes = 16 * 10, .requests_max = 4}, path_,
                                clock_of_toys_, {}, std::move(ring));
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
  // Ranks that do nothing but wait, until the front hears that word.
  std::vector<generate::WorkerMessage> hear_until(generate::WorkerWord word) {
    std::vector<generate::WorkerMessage> out;
    const SimTime end = clock_.now() + SimDuration{60'000'000'000};
    while (clock_.now() < end) {
      for (size_t rank = 0; rank < 2; ++rank) {
        const auto wanted = fillers_[rank]->awaited();
        const auto came = ends_[rank]->receive_any({&*wanted, 1}, clock_.now());
        if (came) {
          EXPECT_TRUE(fillers_[rank]->take(came->message.payload));
        }
        fillers_[rank]->fill(kNever);
      }
      char bytes[4096];
      const ssize_t got = recv(front_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got > 0) {
        EXPECT_TRUE(lines_.add({bytes, static_cast<size_t>(got)}));
      }
      while (const auto line = lines_.next()) {
        out.push_back(generate::parse_worker(*line).value());
        if (out.back().kind == word) return out;
      }
    }
    ADD_FAILURE() << "nobody says so";
    return out;
  }
  std::vector<int64_t> answer(int64_t id) {
    ask({.request = {.id = id, .tokens = {3, 4}, .tokens_max = 4}});
    std::vector<int64_t> out;
    for (const auto& message : hear_until(generate::WorkerWord::kLength))
      if (message.kind == generate::WorkerWord::kToken) out.push_back(message.token);
    return out;
  }

  const std::string path_ = fmt::format("/tmp/tombolo-ring-{}.socket", getpid());
  ManualClock clock_of_toys_;
  const model::Model model_ = generate::toy_model();
  std::vector<std::unique_ptr<transport::Endpoint>> ends_;
  std::vector<std::unique_ptr<runtime::Filler>> fillers_;
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

TEST_F(TwoRanks, HaveNothingForADecodeWorker) {
  ask({.kind = FrontWord::kDecode,
       .decode = generate::DecodePlace{.host = "127.0.0.1", .port = 9, .token = "x"}});
  EXPECT_THAT(hear_until(generate::WorkerWord::kFailed).back().message,
              HasSubstr("2 ranks share this model"));
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
