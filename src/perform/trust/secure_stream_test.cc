// Two ends of a TLS connection, with nothing between them but vectors.
#include "perform/trust/secure_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "perform/trust/authority.h"

namespace tombolo::trust {
namespace {

using std::chrono::hours;
using testing::HasSubstr;
using Role = SecureStream::Role;
using Bytes = std::vector<std::byte>;

Bytes noise(size_t bytes, uint64_t seed) {
  Random random(seed);
  Bytes out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

// Carries what one end has to say to the other, in portions, and returns the plain bytes.
Result<Bytes> carry(SecureStream& from, SecureStream& to, size_t portion = 1 << 20) {
  Bytes wire, plain;
  from.take(wire);
  for (size_t at = 0; at < wire.size();) {
    const auto space = to.space();
    const size_t n = std::min({portion, space.size(), wire.size() - at});
    std::copy_n(wire.begin() + static_cast<ptrdiff_t>(at), n, space.begin());
    to.commit(n);
    at += n;
    Bytes some(10'000);
    while (const size_t opened = TRY(to.open(some)))
      plain.insert(plain.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(opened));
  }
  return plain;
}

// Until neither has anything to say. The first error, of whichever side.
Status shake_hands(SecureStream& dialer, SecureStream& listener, size_t portion = 1 << 20) {
  while (dialer.has_output() || listener.has_output()) {
    const auto at_listener = carry(dialer, listener, portion);
    const auto at_dialer = carry(listener, dialer, portion);
    if (!at_listener) return fail(at_listener.error());
    if (!at_dialer) return fail(at_dialer.error());
  }
  return {};
}

class SecureStreamTest : public testing::Test {
 protected:
  std::shared_ptr<const SecureContext> host(const std::string& name, const Authority& authority,
                                            const Validity& validity) {
    return *SecureContext::create(*authority.issue(name, validity));
  }
  std::shared_ptr<const SecureContext> host(const std::string& name) {
    return host(name, authority_, host_validity(now_));
  }
  // What the listener says to a dialer with this certificate.
  std::string refusal(const std::shared_ptr<const SecureContext>& stranger) {
    SecureStream dialer(stranger, Role::kDials), listener(host("paris"), Role::kAnswers);
    const Status status = shake_hands(dialer, listener);
    EXPECT_FALSE(listener.ready());
    return status ? "welcome" : status.error().message;
  }

  const WallTime now_ = wall_time();
  const Authority authority_ = *Authority::create(now_);
};

TEST_F(SecureStreamTest, BytesComeOutAsTheyWentIn) {
  for (const size_t portion : {size_t{1}, size_t{7}, size_t{4096}, size_t{1} << 20}) {
    SecureStream dialer(host("oregon"), Role::kDials), listener(host("paris"), Role::kAnswers);
    ASSERT_TRUE(shake_hands(dialer, listener, portion));
    ASSERT_TRUE(dialer.ready() && listener.ready());
    dialer.widen();
    for (const size_t size : {0, 1, 16'384, 16'385, 100'000}) {
      dialer.seal(noise(size, 1));
      EXPECT_EQ(*carry(dialer, listener, portion), noise(size, 1));
      listener.seal(noise(size, 2));
      EXPECT_EQ(*carry(listener, dialer, portion), noise(size, 2));
    }
    EXPECT_FALSE(listener.heard_end());
    dialer.say_end();
    EXPECT_TRUE(carry(dialer, listener)->empty());
    EXPECT_TRUE(listener.heard_end());
    EXPECT_FALSE(dialer.heard_end());
  }
}

TEST_F(SecureStreamTest, KeysAreRenewedOnTheWay) {
  SecureStream dialer(host("oregon"), Role::kDials), listener(host("paris"), Role::kAnswers);
  ASSERT_TRUE(shake_hands(dialer, listener));
  dialer.renew_keys_every(1000);
  for (uint64_t i = 0; i < 20; ++i) {
    dialer.seal(noise(900, i));
    EXPECT_EQ(*carry(dialer, listener), noise(900, i));
    listener.seal(noise(900, i));
    EXPECT_EQ(*carry(listener, dialer), noise(900, i));
  }
}

TEST_F(SecureStreamTest, WhatTravelsIsNotWhatWasSaid) {
  SecureStream dialer(host("oregon"), Role::kDials), listener(host("paris"), Role::kAnswers);
  ASSERT_TRUE(shake_hands(dialer, listener));
  const Bytes secret = noise(100, 3);
  dialer.seal(secret);
  Bytes wire;
  dialer.take(wire);
  EXPECT_EQ(std::search(wire.begin(), wire.end(), secret.begin(), secret.begin() + 8), wire.end());
}

TEST_F(SecureStreamTest, AChangedByteIsNoticed) {
  SecureStream dialer(host("oregon"), Role::kDials), listener(host("paris"), Role::kAnswers);
  ASSERT_TRUE(shake_hands(dialer, listener));
  dialer.seal(noise(100, 3));
  Bytes wire;
  dialer.take(wire);
  wire[50] ^= std::byte{1};
  std::copy(wire.begin(), wire.end(), listener.space().begin());
  listener.commit(wire.size());
  Bytes plain(1000);
  EXPECT_FALSE(listener.open(plain));
  EXPECT_FALSE(listener.open(plain)) << "an error is final";
}

TEST_F(SecureStreamTest, AnExpiredCertificateIsNamedWithItsDate) {
  const WallTime end{std::chrono::seconds(1'700'000'000)};  // 2023-11-14 22:13:20
  EXPECT_EQ(refusal(host("lima", authority_, {end - hours(24), end})),
            "its certificate, of \"lima\", expired on 2023-11-14 22:13 UTC");
  EXPECT_THAT(refusal(host("lima", authority_, {now_ + hours(1), now_ + hours(2)})),
              HasSubstr("its certificate, of \"lima\", is valid only from "));
}

TEST_F(SecureStreamTest, AnotherAuthorityIsRefusedAlsoUnderTheSameName) {
  const Authority other = *Authority::create(now_);
  EXPECT_EQ(refusal(host("oregon", other, host_validity(now_))),
            "its certificate is of another authority");
}

// Either of the two may refuse the other; a dialer that is refused receives an alert.
TEST_F(SecureStreamTest, AHostThatIsRefusedDoesNotGetInAndIsNotCalled) {
  Credentials strict = *authority_.issue("oregon", host_validity(now_));
  strict.refused = {"paris"};
  const auto oregon = *SecureContext::create(strict);
  const auto meet = [&](const std::shared_ptr<const SecureContext>& dials,
                        const std::shared_ptr<const SecureContext>& answers) {
    SecureStream dialer(dials, Role::kDials), listener(answers, Role::kAnswers);
    const Status status = shake_hands(dialer, listener);
    return status ? "" : status.error().message;
  };
  const auto paris = host("paris", authority_, host_validity(now_));
  const std::string refusal = "its certificate is of \"paris\", which this host refuses";
  EXPECT_EQ(meet(paris, oregon), refusal);
  EXPECT_EQ(meet(oregon, paris), refusal);
  const auto lima = host("lima", authority_, host_validity(now_));
  EXPECT_EQ(meet(lima, oregon), "");
  EXPECT_EQ(meet(oregon, lima), "");
}

TEST_F(SecureStreamTest, NoCertificateIsRefused) {
  const auto joiner = *SecureContext::for_joiner(*fingerprint_of(authority_.certificate()));
  EXPECT_EQ(refusal(joiner), "it has no certificate");
}

TEST_F(SecureStreamTest, ADialerRefusesAListenerOfAnotherAuthority) {
  const Authority other = *Authority::create(now_);
  SecureStream dialer(host("oregon"), Role::kDials);
  SecureStream listener(host("paris", other, host_validity(now_)), Role::kAnswers);
  ASSERT_TRUE(carry(dialer, listener));
  EXPECT_EQ(carry(listener, dialer).error().message, "its certificate is of another authority");
  EXPECT_THAT(carry(dialer, listener).error().message,
              HasSubstr("it refused this host: unknown CA"));
}

TEST_F(SecureStreamTest, AJoinerKnowsTheAuthorityByItsFingerprint) {
  const Credentials first = *authority_.issue("first", host_validity(now_));
  const auto inviter = *SecureContext::for_inviter(first);
  const std::string fingerprint = *fingerprint_of(authority_.certificate());
  {
    SecureStream dialer(*SecureContext::for_joiner(fingerprint), Role::kDials);
    SecureStream listener(inviter, Role::kAnswers);
    ASSERT_TRUE(shake_hands(dialer, listener));
    EXPECT_EQ(*dialer.shown_authority(), authority_.certificate());
  }
  const std::string other = *fingerprint_of(Authority::create(now_)->certificate());
  SecureStream dialer(*SecureContext::for_joiner(other), Role::kDials);
  SecureStream listener(inviter, Role::kAnswers);
  ASSERT_TRUE(carry(dialer, listener));
  EXPECT_EQ(carry(listener, dialer).error().message,
            "it does not have the authority that the token names");
}

// An unauthenticated peer cannot make it hold more bytes than its header documents.
TEST_F(SecureStreamTest, AnEndlessHandshakeIsCutOff) {
  SecureStream listener(host("paris"), Role::kAnswers);
  // Records of one byte of a ClientHello that says it has 128 KiB.
  const std::vector<int> hello = {1, 1, 0xff, 0xff};
  Status status;
  for (size_t i = 0; i < 50'000 && status; ++i) {
    const std::vector<int> record = {22, 3, 1, 0, 1, i < hello.size() ? hello[i] : 0};
    const auto space = listener.space();
    std::transform(record.begin(), record.end(), space.begin(),
                   [](int b) { return static_cast<std::byte>(b); });
    listener.commit(record.size());
    Bytes plain(10);
    const auto opened = listener.open(plain);
    if (!opened) status = fail(opened.error());
  }
  ASSERT_FALSE(status);
}

}  // namespace
}  // namespace tombolo::trust
