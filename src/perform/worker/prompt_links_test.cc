// Ranks that answer prompts with a decode worker behind them, in simulated time: for how long one is
// called that does not answer, and when one that is cut off counts as lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perform/generate/front_message.h"
#include "perform/handover/decode_worker.h"
#include "perform/worker/serve_prompts.h"
#include "support/folder_test.h"
#include "support/ocean_sockets.h"
#include "support/own_process.h"
#include "support/toy_shard.h"

namespace tombolo::worker {
namespace {

using generate::FrontMessage;
using generate::FrontWord;
using generate::WorkerMessage;
using generate::WorkerWord;
using ocean::Ocean;
using ocean::OceanSockets;
using ocean::Sea;
using ocean::Waters;

constexpr SimDuration kMillisecond{1'000'000};
constexpr SimDuration kASecond{1'000'000'000};
constexpr int kDecodeHost = 7;

// The front of the first rank, on its host.
class OceanFront {
 public:
  OceanFront(const std::string& path, Waters& waters) : waters_(waters) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0, "{}", path);
  }
  ~OceanFront() { close(socket_); }

  Waters& waters() { return waters_; }
  void say(const FrontMessage& message) {
    const std::string line = to_line(message) + "\n";
    CHECK(send(socket_, line.data(), line.size(), MSG_NOSIGNAL) == std::ssize(line), "unsent");
  }
  // Until one of these words comes, and after how long; others are passed over.
  std::string hear(std::initializer_list<WorkerWord> words) {
    const SimTime since = waters_.now();
    while (waters_.now() < since + kASecond * 100) {
      const auto message = next();
      if (message && std::find(words.begin(), words.end(), message->kind) != words.end())
        return fmt::format("{:.1f} s: {}{}", seconds(waters_.now() - since).value,
                           message->kind == WorkerWord::kLinked  ? "linked"
                           : message->kind == WorkerWord::kToken ? "a token"
                                                                 : "failed: ",
                           message->message);
      if (!message) waters_.sleep_until(waters_.now() + kMillisecond * 10);
    }
    return "nothing";
  }

 private:
  std::optional<WorkerMessage> next() {
    char bytes[4096];
    const ssize_t got = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) CHECK(lines_.add({bytes, static_cast<size_t>(got)}), "too long a line");
    const auto line = lines_.next();
    return line ? std::optional(generate::parse_worker(*line).value()) : std::nullopt;
  }

  Waters& waters_;
  int socket_ = -1;
  generate::Lines lines_;
};

using Script = std::function<std::string(OceanFront& front, Sea& sea)>;

class PromptLinks : public FolderTest {
 protected:
  void SetUp() override {
#ifdef TOMBOLO_NO_FORKS
    GTEST_SKIP() << "under ThreadSanitizer";
#endif
    FolderTest::SetUp();
  }

  // `ranks` ranks, each on a host of its own, which share the toy's layers; a decode worker, or none.
  std::string play(int32_t ranks, bool has_decode_worker, const Script& script) const {
    return ocean::in_a_process([&]() -> std::string {
      auto* ocean = new Ocean(1);  // kept: threads are parked in it
      auto* sea = new Sea(*ocean);
      std::optional<std::string> out;
      if (has_decode_worker) {
        ocean->start(kDecodeHost, [&](Waters& waters) {
          decode(*sea, waters);
          return 0;
        });
      }
      for (int32_t rank = 0; rank < ranks; ++rank) {
        ocean->start(rank, [&, rank](Waters& waters) {
          answer(*sea, waters, rank, ranks);
          return 0;
        });
      }
      ocean->start(0, [&](Waters& waters) {
        waters.sleep_until(waters.now() + kASecond * 3);  // all are linked by then
        OceanFront front(at("prompts.socket"), waters);
        out = script(front, *sea);
        return 0;
      });
      ocean->sail([&] { return out.has_value(); });
      return out.value_or("all wait for ever");
    });
  }

  static generate::DecodePlace place() {
    return {.host = ocean::address_of(kDecodeHost),
            .port = 41'000,
            .token = "00112233445566778899aabbccddeeff",
            .plain_tcp = true};
  }
  static FrontMessage request(int64_t id) {
    return {.request = {
                .id = id, .tokens = {3, 4}, .tokens_max = 4, .share = generate::Share::kPrefill}};
  }

 private:
  static handover::HostServices services(Waters& waters, OceanSockets& sockets) {
    return {.threads = waters,
            .sockets = sockets,
            .own_address = [&waters](const std::string&) -> Result<std::string> {
              return ocean::address_of(waters.process().host);
            }};
  }
  static void decode(Sea& sea, Waters& waters) {
    OceanSockets sockets(sea, waters);
    const generate::ToyShard shard(waters, kMillisecond);
    const std::atomic<bool> never{false};
    const auto worker = handover::DecodeWorker::listen(
        shard, {.kv_bytes = 24 * 40, .requests_max = 4}, place(), [](const std::string&) {},
        services(waters, sockets));
    CHECK(worker, "{}", worker.error().text());
    static_cast<void>((*worker)->serve(never));
  }
  void answer(Sea& sea, Waters& waters, int32_t rank, int32_t ranks) const {
    OceanSockets sockets(sea, waters);
    auto endpoint = *sockets.open({.identity = {.rank = rank, .ranks = 2},
                                   .listen_address = ocean::address_of(rank),
                                   .port = static_cast<uint16_t>(42'000 + rank),
                                   .plain_tcp = true},
                                  waters);
    const SimTime soon = waters.now() + kASecond * 2;
    std::optional<ShardRing> ring;
    if (ranks > 1) {
      const Status linked = rank == 0
                                ? endpoint->await_peer(1, {}, soon)
                                : endpoint->connect(0, ocean::address_of(0), 42'000, {}, soon);
      CHECK(linked, "{}", linked.error().text());
      ring.emplace(std::vector<int32_t>{0, 1}, rank, *endpoint);
    }
    const model::Model model = generate::toy_model();
    const model::Slice slice = ring ? ring->slice(model) : model::stage_slice(model, 1, 0);
    auto filler =
        prompt_filler(std::make_unique<generate::ToyShard>(waters, kMillisecond, model, slice),
                      {.kv_bytes = 24 * 40, .requests_max = 4}, at("prompts.socket"),
                      services(waters, sockets), {}, std::move(ring));
    CHECK(filler, "{}", filler.error().text());
    while (true) {
      const auto wanted = (*filler)->awaited();
      if (wanted) {
        const auto came = endpoint->receive_any({&*wanted, 1}, waters.now());
        if (came) CHECK((*filler)->take(came->message.payload), "not taken");
      }
      if (!(*filler)->fill(waters.now() + kASecond))
        waters.sleep_until(waters.now() + kMillisecond * 10);
    }
  }
};

TEST_F(PromptLinks, ADecodeWorkerThatAnswersIsLinkedAtOnce) {
  for (const int32_t ranks : {1, 2}) {
    EXPECT_EQ(
        play(ranks, true,
             [](OceanFront& front, Sea&) {
               front.say({.kind = FrontWord::kDecode, .decode = place()});
               const std::string linked = front.hear({WorkerWord::kLinked, WorkerWord::kFailed});
               front.say(request(1));
               const std::string token = front.hear({WorkerWord::kToken});
               return linked.substr(linked.find(':')) + token.substr(token.find(':'));
             }),
        ": linked: a token")
        << ranks;
  }
}

// Five seconds each: the second rank calls once the first has been answered.
TEST_F(PromptLinks, OneThatDoesNotAnswerIsCalledForFiveSeconds) {
  const Script call = [](OceanFront& front, Sea&) {
    front.say({.kind = FrontWord::kDecode, .decode = place()});
    return front.hear({WorkerWord::kLinked, WorkerWord::kFailed});
  };
  EXPECT_THAT(
      play(1, false, call),
      testing::MatchesRegex("5\\.[01] s: failed: rank 0 did not answer at 10\\.0\\.0\\.8.*"));
  EXPECT_THAT(play(2, true,
                   [&](OceanFront& front, Sea& sea) {
                     sea.cut(1, kDecodeHost, front.waters().now() + kASecond * 60);
                     return call(front, sea);
                   }),
              testing::MatchesRegex("5\\.[0-3] s: failed: .*did not answer at 10\\.0\\.0\\.8.*"));
}

// Silence is borne for five seconds and three more, in which the link may come back. A prompt that is
// read meanwhile is sent, as far as anyone knows; one that is read later has nowhere to go.
TEST_F(PromptLinks, OneThatIsCutOffIsLostAfterEightSeconds) {
  const auto cut_for = [&](SimDuration span) {
    return play(1, true, [span](OceanFront& front, Sea& sea) {
      front.say({.kind = FrontWord::kDecode, .decode = place()});
      front.hear({WorkerWord::kLinked, WorkerWord::kFailed});
      sea.cut(0, kDecodeHost, front.waters().now() + span);
      std::string out;
      for (const int64_t id : {1, 2}) {
        front.waters().sleep_until(front.waters().now() + kASecond * 6);
        front.say(request(id));
        out += front.hear({WorkerWord::kToken}) + "; ";
        const std::string after = front.hear({WorkerWord::kFailed});
        if (after != "nothing") return out + after.substr(after.find(": ") + 2);
      }
      return out;
    });
  };
  EXPECT_EQ(cut_for(kASecond * 4), "0.0 s: a token; 0.0 s: a token; ");
  EXPECT_THAT(cut_for(kASecond * 90),
              testing::MatchesRegex("0\\.0 s: a token; 0\\.0 s: a token; failed: lost rank 0: .*"));
}

}  // namespace
}  // namespace tombolo::worker
