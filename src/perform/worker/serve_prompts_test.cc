#include "perform/worker/serve_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "perform/generate/front_message.h"
#include "support/folder_test.h"
#include "support/toy_shard.h"

namespace tombolo::worker {
namespace {

using generate::FrontMessage;
using generate::FrontWord;
using generate::to_line;
using generate::WorkerMessage;
using generate::WorkerWord;
using ::testing::HasSubstr;

// A worker with a toy in a thread, and the front's end of its socket.
class ServedPrompts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    thread_ = std::thread([this] {
      status_ = serve_prompts(shard_, {.kv_bytes = 24 * 10, .requests_max = 4}, ends_[1],
                              handover::HostServices{clock_});
    });
    const WorkerMessage ready = hear();
    EXPECT_EQ(ready.kind, WorkerWord::kReady);
    EXPECT_EQ(ready.facts->kv_bytes_per_token, 24);
    EXPECT_EQ(ready.facts->positions, 64);
  }
  void TearDown() override {
    close(ends_[0]);
    thread_.join();
  }

  void say(const std::string& bytes) {
    EXPECT_EQ(send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(const FrontMessage& message) { say(to_line(message) + "\n"); }
  WorkerMessage hear() {
    for (;;) {
      if (const auto line = lines_.next()) return generate::parse_worker(*line).value();
      char bytes[4096];
      const ssize_t got = recv(ends_[0], bytes, sizeof bytes, 0);
      if (got <= 0) return {.kind = WorkerWord::kFailed, .message = "the worker has gone"};
      EXPECT_TRUE(lines_.add({bytes, static_cast<size_t>(got)}));
    }
  }

  ManualClock clock_;
  generate::ToyShard shard_{clock_, SimDuration{1000}};
  int ends_[2] = {-1, -1};
  std::thread thread_;
  generate::Lines lines_;
  Status status_;
};

TEST_F(ServedPrompts, AnswersUntilTheOtherEndCloses) {
  say({.request = {.id = 5, .tokens = {3, 4}, .tokens_max = 2}});
  EXPECT_EQ(hear().kind, WorkerWord::kAdmitted);
  EXPECT_EQ(hear().token, 7);
  EXPECT_EQ(hear().token, 4);
  const WorkerMessage end = hear();
  EXPECT_EQ(end.kind, WorkerWord::kLength);
  EXPECT_EQ(end.id, 5);
}

// The worker answers a heartbeat, whether it computes an answer or not.
TEST_F(ServedPrompts, GivesASignOfLife) {
  say(FrontMessage{.kind = FrontWord::kBeat});
  EXPECT_EQ(hear().kind, WorkerWord::kBeat);
}

TEST_F(ServedPrompts, RefusesWhatHasNoRoom) {
  say({.request = {.id = 1, .tokens = {3, 4}, .tokens_max = 12}});
  const WorkerMessage refused = hear();
  EXPECT_EQ(refused.kind, WorkerWord::kRefused);
  EXPECT_EQ(refused.why, generate::Refusal::kTooLong);
}

TEST_F(ServedPrompts, ForgetsWhatIsCancelled) {
  say(to_line(FrontMessage{.request = {.id = 1, .tokens = {3}, .tokens_max = 10}}) + "\n" +
      to_line(FrontMessage{.kind = FrontWord::kCancel, .request = {.id = 1}}) + "\n" +
      to_line(FrontMessage{.request = {.id = 2, .tokens = {3}, .tokens_max = 10}}) + "\n");
  EXPECT_EQ(hear().id, 1);  // admitted, and never heard of again
  EXPECT_EQ(hear().kind, WorkerWord::kAdmitted);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(hear().id, 2);
  EXPECT_EQ(hear().kind, WorkerWord::kLength);
}

TEST_F(ServedPrompts, EndsAtWhatIsNoMessage) {
  say("hello\n");
  EXPECT_EQ(hear().message, "the worker has gone");
  thread_.join();
  EXPECT_FALSE(status_);
  thread_ = std::thread([] {});
}

// --- in gaps -------------------------------------------------------------------------------------

int connect_to(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(out, reinterpret_cast<sockaddr*>(&at), sizeof at), 0) << path;
  return out;
}

void say_to(int socket, const std::string& bytes) {
  EXPECT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// All that has come and not been read.
std::string hear_from(int socket) {
  std::string out(65'536, '\0');
  const ssize_t got = recv(socket, out.data(), out.size(), MSG_DONTWAIT);
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

class PromptsInGaps : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    path_ = at("prompts.socket");
    auto made = prompt_filler(toy(), {.kv_bytes = 24 * 10, .requests_max = 4}, path_,
                              handover::HostServices{clock_});
    ASSERT_TRUE(made) << made.error().text();
    filler_ = std::move(*made);
  }
  std::unique_ptr<generate::Shard> toy() {
    return std::make_unique<generate::ToyShard>(clock_, SimDuration{1000});
  }
  bool fill(int64_t ns = 10'000) { return filler_->fill(clock_.now() + SimDuration{ns}); }

  ManualClock clock_;
  std::string path_;
  std::unique_ptr<stage::Filler> filler_;
};

// Layer by layer, and only where one fits.
TEST_F(PromptsInGaps, AreAnsweredALayerAtATime) {
  EXPECT_FALSE(fill());  // no front is connected
  const int front = connect_to(path_);
  EXPECT_FALSE(fill());
  EXPECT_THAT(hear_from(front), HasSubstr("\"ready\""));
  say_to(front, to_line(FrontMessage{.request = {.id = 5, .tokens = {3, 4}}}) + "\n");
  EXPECT_TRUE(fill());
  EXPECT_THAT(hear_from(front), HasSubstr("\"admitted\""));
  EXPECT_FALSE(fill(999));  // a layer takes 1,000
  EXPECT_TRUE(fill(1000));
  EXPECT_EQ(hear_from(front), "");
  EXPECT_TRUE(fill());
  EXPECT_THAT(hear_from(front), HasSubstr("\"token\":7"));
  EXPECT_FALSE(fill());
  close(front);
}

// Three layers of 1,000 ns; gaps of 2,000 before the next period of 10,000, of which 8,000 are
// computed. A prompt that would take a period and more is refused where less is allowed.
TEST(PromptsInForeseenGaps, AreRefusedWhereNoWindowIsThereInTime) {
  ManualClock clock;
  const generate::ToyShard shard(clock, SimDuration{1000});
  constexpr action::Action kForward{action::ActionKind::kForward, 0, 0};
  prefill::RankWindows windows({.period = {10'000}, .computations = {{kForward, {0}, {8'000}}}},
                               {0});
  windows.begins(1, kForward, {-8'000});
  windows.ends(1, kForward, {0});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  PromptDoor listener(shard, {}, ends[1], handover::HostServices{clock},
                      {.windows = &windows, .within = {11'500}});
  const auto ask = [&](int64_t id, bool flex = false) {
    say_to(ends[0],
           to_line(FrontMessage{.request = {.id = id, .tokens = {3, 4}, .flex = flex}}) + "\n");
    EXPECT_TRUE(listener.listen(false).value());
    return hear_from(ends[0]);
  };
  EXPECT_THAT(ask(1), HasSubstr("\"admitted\""));  // no layer has been timed yet
  listener.do_layer();  // now it is known: 1,000 of the 2,000 of this window are left
  // The first prompt's pass, counted whole, takes this window and one of the next, then come three.
  const std::string refused = ask(2);
  EXPECT_THAT(refused, HasSubstr("\"refused\""));
  EXPECT_THAT(refused, HasSubstr("\"busy\""));
  EXPECT_THAT(refused, HasSubstr("the gaps of training"));
  listener.do_layer();
  listener.do_layer();  // the first is answered
  windows.begins(2, kForward, {3'000});
  windows.ends(2, kForward, {11'000});
  clock.advance({8'000});
  EXPECT_THAT(ask(3), HasSubstr("\"admitted\""));  // 2,000 now and 1,000 at 21,000
  EXPECT_THAT(ask(4), HasSubstr("\"refused\""));
  // What was seen once is no law for ever: where not even a prompt alone would fit, it is forgotten. One
  // that may wait is asked about no gaps, and begins when no other is under way.
  clock.advance({1'900});
  int64_t id = 6;
  EXPECT_THAT(ask(5, true), HasSubstr("\"refused\""));
  say_to(ends[0], to_line(FrontMessage{.kind = FrontWord::kCancel, .request = {.id = 3}}) + "\n");
  EXPECT_THAT(ask(4), HasSubstr("the gaps of training"));
  EXPECT_THAT(ask(5, true), HasSubstr("\"admitted\""));
  say_to(ends[0], to_line(FrontMessage{.kind = FrontWord::kCancel, .request = {.id = 5}}) + "\n");
  while (ask(id).find("\"refused\"") != std::string::npos) ASSERT_LT(++id, 100);
  close(ends[0]);
}

// Who leaves, and who sends what is no message: the next one is served.
TEST_F(PromptsInGaps, FrontsComeAndGo) {
  for (const char* last : {"", "nonsense\n", "{}\n"}) {
    const int front = connect_to(path_);
    EXPECT_FALSE(fill());
    say_to(front,
           to_line(FrontMessage{.request = {.id = 5, .tokens = {3}, .tokens_max = 8}}) + "\n");
    EXPECT_TRUE(fill());
    say_to(front, last);
    close(front);
    while (fill()) {
    }
  }
  const int front = connect_to(path_);
  EXPECT_FALSE(fill());
  EXPECT_THAT(hear_from(front), HasSubstr("\"ready\""));
  close(front);
}

TEST_F(PromptsInGaps, TheSocketIsMadeAnewAndGoes) {
  struct stat facts {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  auto second =
      prompt_filler(toy(), {}, path_, handover::HostServices{clock_});  // as after a crash
  ASSERT_TRUE(second) << second.error().text();
  second->reset();
  EXPECT_NE(stat(path_.c_str(), &facts), 0);
  EXPECT_FALSE(prompt_filler(toy(), {}, at("no/such/folder"), handover::HostServices{clock_}));
  EXPECT_FALSE(prompt_filler(toy(), {}, std::string(200, 'x'), handover::HostServices{clock_}));
}

}  // namespace
}  // namespace tombolo::worker
