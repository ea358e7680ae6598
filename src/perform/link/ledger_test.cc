#include "perform/link/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tombolo::link {
namespace {

constexpr SimDuration kMs{1'000'000};

Outgoing segment(uint64_t message, const std::shared_ptr<const Payload>& owner) {
  return {.header = {.message = message}, .owner = owner, .payload = *owner};
}

TEST(Ledger, KeepsWhatNoReceiptConfirmed) {
  Ledger ledger({}, {});
  const auto owner = std::make_shared<const Payload>(100);
  for (uint64_t message = 1; message <= 3; ++message) ledger.give(segment(message, owner));
  EXPECT_EQ(ledger.kept_bytes(), 300u);
  ASSERT_TRUE(ledger.receipt(2));
  EXPECT_EQ(ledger.kept_bytes(), 100u);
  EXPECT_EQ(owner.use_count(), 2) << "the confirmed ones are let go";
  EXPECT_EQ(ledger.receipt(1).error().message,
            "a receipt for segment 1 where 2 to 3 were to be confirmed");
  EXPECT_FALSE(ledger.receipt(4));
  const auto back = ledger.take_back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back.front().header.message, 3u);
}

TEST(Ledger, OwesAReceiptAfterSomeBytesOrALittleWhile) {
  Ledger ledger({.receipt_bytes = 1000, .receipt_after = kMs * 20}, {});
  EXPECT_FALSE(ledger.owes_receipt({}));
  ledger.take(999, SimTime{} + kMs * 5);
  EXPECT_FALSE(ledger.owes_receipt(SimTime{} + kMs * 24));
  EXPECT_EQ(ledger.wake(), SimTime{} + kMs * 25);
  EXPECT_TRUE(ledger.owes_receipt(SimTime{} + kMs * 25));
  ledger.take(1, SimTime{} + kMs * 6);
  EXPECT_TRUE(ledger.owes_receipt(SimTime{} + kMs * 6));
  EXPECT_EQ(ledger.report(), 2u);
  EXPECT_FALSE(ledger.owes_receipt(SimTime{} + kMs * 100));
}

TEST(Ledger, PingsWhenItSaidNothingAndIsSilentWhenItHeardNothing) {
  Ledger ledger({.ping_every = kMs * 10, .silence_max = kMs * 50}, SimTime{} + kMs);
  EXPECT_EQ(ledger.wake(), SimTime{} + kMs * 11);
  EXPECT_TRUE(ledger.owes_ping(SimTime{} + kMs * 11));
  ledger.said(SimTime{} + kMs * 48);
  EXPECT_FALSE(ledger.owes_ping(SimTime{} + kMs * 57));
  EXPECT_EQ(ledger.wake(), SimTime{} + kMs * 51);
  EXPECT_TRUE(ledger.silent(SimTime{} + kMs * 51));
  ledger.heard(SimTime{} + kMs * 20);
  ledger.heard(SimTime{} + kMs * 10);  // told late
  EXPECT_FALSE(ledger.silent(SimTime{} + kMs * 69));
}

}  // namespace
}  // namespace tombolo::link
