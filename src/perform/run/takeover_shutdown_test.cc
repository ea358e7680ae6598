// A rank that comes again behind the end of a run, over loopback.
#include "perform/run/takeover_shutdown.h"

#include <gtest/gtest.h>

#include <future>

#include "perform/run/rank_session.h"

namespace tombolo::run {
namespace {

// It hears that all is done, and ends well; so does a spare.
TEST(Farewell, IsSaidToThoseThatCome) {
  SystemClock clock;
  const link::Token token = *link::Token::random();
  Workers::Options listener{.ranks = 2, .token = token};
  listener.on_beat = [](int32_t, const control::Beat& beat) {
    return control::Grant{.epoch = 7, .sent = beat.sent};
  };
  const auto workers = Workers::listen(listener, clock);
  ASSERT_TRUE(workers) << workers.error().text();
  const transport::Address at{"127.0.0.1", (*workers)->port()};
  const RankSessionOptions rank{
      .rank = 1, .ranks = 2, .launcher = at, .token = token, .returns = true};
  const KernelsFactory nobody = [](const plan::Plan&, int32_t) {
    return Result<std::unique_ptr<kernels::Kernels>>(failed("it need not begin"));
  };
  auto end = std::async(std::launch::async, [&] { return serve_rank(rank, nobody, clock); });
  const SpareOptions spare{.start = {.ranks = 2, .launcher = at, .token = token}};
  auto seat = std::async(std::launch::async, [&] { return wait_for_seat(spare, clock); });
  say_farewell(**workers, 2, state::Over{}, SimDuration{20'000'000'000}, clock);
  const RankEnd ended = end.get();
  EXPECT_TRUE(ended.status) << ended.status.error().text();
  const SimTime deadline = clock.now() + SimDuration{20'000'000'000};
  while (seat.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready &&
         clock.now() < deadline)
    (*workers)->tell_spares(state::Over{});
  EXPECT_EQ(*seat.get(), std::nullopt);
}

}  // namespace
}  // namespace tombolo::run
