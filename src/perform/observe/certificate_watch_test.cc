#include "perform/observe/certificate_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::observe {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;

TEST(CertificateWatch, SaysOfEachHostOnceADayWhenItsTimeIsShort) {
  const trust::WallTime now{hours(24 * 20'000)};
  const trust::CertificateFacts paris{"paris", now - hours(24 * 80), now + hours(24 * 10)};
  const trust::CertificateFacts oregon{"oregon", now, now + hours(24 * 90)};
  CertificateWatch watch;
  EXPECT_EQ(watch.add(oregon, now), "");
  EXPECT_THAT(watch.add(paris, now), HasSubstr("of \"paris\" expires on "));
  EXPECT_EQ(watch.add(paris, now + hours(23)), "");
  EXPECT_THAT(watch.add(paris, now + hours(24)), HasSubstr("in 9 days"));
  EXPECT_THAT(watch.add(oregon, now + hours(24 * 77)), HasSubstr("of \"oregon\" expires on "));
  EXPECT_THAT(watch.add(paris, now + hours(24 * 77)), HasSubstr("of \"paris\" expired on "));
  const trust::CertificateFacts renewed{"paris", now, now + hours(24 * 190)};
  EXPECT_EQ(watch.add(renewed, now + hours(24 * 79)), "");
}

}  // namespace
}  // namespace tombolo::observe
