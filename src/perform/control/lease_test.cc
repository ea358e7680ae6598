#include "perform/control/lease.h"

#include <gtest/gtest.h>

#include "support/test_times.h"

namespace tombolo::control {
namespace {

const LeaseTerms kTerms{.beat = ms(100), .floor = ms(1000), .ceiling = ms(4000), .drift = 0.01};

// 8 x 100 ms is below the floor, 8 x 250 ms = 2 s above it, 8 x 700 ms above the ceiling.
TEST(Lease, ItsLengthFollowsTheLongestGap) {
  LeaseBook book(kTerms);
  EXPECT_TRUE(book.over(at_ms(0))) << "nothing was granted yet";
  EXPECT_EQ(book.renew(at_ms(0)), ms(1000));
  EXPECT_EQ(book.renew(at_ms(100)), ms(1000));
  EXPECT_EQ(book.renew(at_ms(350)), ms(2000));
  EXPECT_EQ(book.renew(at_ms(450)), ms(2000)) << "a long gap is remembered";
  EXPECT_EQ(book.renew(at_ms(1150)), ms(4000));
  SimTime now = at_ms(1150);
  for (int i = 0; i < 64; ++i) book.renew(now = now + ms(100));
  EXPECT_EQ(book.length(), ms(1000)) << "and forgotten after 64 short ones";
}

// The coordinator waits 3 % longer than it granted, and never less than it granted before.
TEST(Lease, TheCoordinatorsEndComesAfterTheMembers) {
  LeaseBook book(kTerms);
  Lease lease(kTerms);
  const Beat beat = lease.beat(1, at_ms(0));
  EXPECT_EQ(lease.next_beat(), at_ms(100));
  lease.beat(0, at_ms(100));
  EXPECT_EQ(lease.next_beat(), at_ms(150)) << "without an epoch";
  const SimDuration length = book.renew(at_ms(40));  // 40 ms later, on a clock with the same origin
  lease.granted({.epoch = 1, .sent = beat.sent, .length = length}, at_ms(80));
  EXPECT_EQ(lease.end(), at_ms(1000));
  EXPECT_EQ(book.end(), at_ms(40 + 1030));
  EXPECT_TRUE(lease.valid(at_ms(999)));
  EXPECT_FALSE(lease.valid(at_ms(1000)));
  EXPECT_FALSE(book.over(at_ms(1069)));
  EXPECT_TRUE(book.over(at_ms(1070)));
}

TEST(Lease, AnAnswerFromTheFutureOrLongerThanAnyLeaseChangesNothing) {
  Lease lease(kTerms);
  lease.granted({.epoch = 1, .sent = at_ms(50), .length = ms(1000)}, at_ms(10));
  lease.granted({.epoch = 1, .sent = at_ms(0), .length = kLeaseMax + ms(1)}, at_ms(10));
  EXPECT_FALSE(lease.valid(at_ms(11)));
  lease.granted({.epoch = 1, .sent = at_ms(0), .length = ms(2000)}, at_ms(10));
  lease.granted({.epoch = 1, .sent = at_ms(5), .length = ms(1000)}, at_ms(12));
  EXPECT_EQ(lease.end(), at_ms(2000)) << "what was granted stays granted";
}

TEST(Lease, TermsThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(LeaseTerms{}.check());
  EXPECT_FALSE(LeaseTerms{.beat = ms(0)}.check());
  EXPECT_FALSE((LeaseTerms{.floor = ms(5000), .ceiling = ms(4000)}.check()));
  EXPECT_FALSE(LeaseTerms{.ceiling = kLeaseMax + ms(1)}.check());
  EXPECT_FALSE(LeaseTerms{.drift = 0.5}.check());
}

TEST(LeaseDeathTest, TermsAreCheckedBeforeAnybodyGrants) {
  const LeaseTerms none{.beat = ms(0)};
  EXPECT_DEATH(LeaseBook{none}, "a lease with a beat of 0 ns");
  EXPECT_DEATH(Lease{none}, "a lease with a beat of 0 ns");
  EXPECT_DEATH(kTerms.stretched(ms(-1)), "a lease of -1000000 ns");
}

}  // namespace
}  // namespace tombolo::control
