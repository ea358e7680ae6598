#include "perform/trust/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::trust {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kFingerprint(64, 'a');

TEST(Invitation, ReadsWhatItWrote) {
  const Invitation made = *Invitation::create(kFingerprint);
  const auto read = Invitation::parse(made.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), made.text());
  EXPECT_EQ(read->fingerprint(), kFingerprint);
  EXPECT_TRUE(read->matches(made.secret()));
  EXPECT_FALSE(read->matches(made.secret().first(15)));
  EXPECT_FALSE(read->matches(Invitation::create(kFingerprint)->secret()));
}

TEST(Invitation, ASlipIsNotRepeatedInTheError) {
  const std::string text = Invitation::create(kFingerprint)->text();
  for (const std::string& slip :
       {text.substr(1), text + "0", text.substr(0, text.size() - 1) + "G", std::string()}) {
    const auto read = Invitation::parse(slip);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().text(), HasSubstr("96 hexadecimal digits"));
    EXPECT_THAT(read.error().text(), Not(HasSubstr(text.substr(80))));
  }
}

TEST(JoinMessages, ComeBackWhole) {
  const Invitation invitation = *Invitation::create(kFingerprint);
  const auto bytes = encode_question(invitation, "a request");
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(*decode_question(std::span(bytes).first(n)));
  const auto question = decode_question(bytes);
  ASSERT_TRUE(question && *question);
  EXPECT_TRUE(invitation.matches((*question)->secret));
  EXPECT_EQ((*question)->request, "a request");

  const auto good = encode_answer(std::string("a certificate"));
  EXPECT_FALSE(*decode_answer(std::span(good).first(5)));
  EXPECT_EQ(**decode_answer(good), "a certificate");
  EXPECT_EQ(decode_answer(encode_answer(failed("no\x1b[2J"))).error().message,
            "it refused: no?[2J");
}

// 4 bytes of length: 0, 17 - 1, 16 KiB + 1 and 4 GiB - 1 can be no question.
TEST(JoinMessages, LengthsAreCheckedFirst) {
  const std::vector<std::vector<int>> lengths = {
      {0, 0, 0, 0}, {16, 0, 0, 0}, {1, 64, 0, 0}, {255, 255, 255, 255}};
  for (const auto& length : lengths) {
    std::vector<std::byte> bytes;
    for (const int b : length) bytes.push_back(static_cast<std::byte>(b));
    EXPECT_FALSE(decode_question(bytes));
  }
  auto more = encode_question(*Invitation::create(kFingerprint), "a request");
  more.push_back(std::byte{0});
  EXPECT_FALSE(decode_question(more));
}

}  // namespace
}  // namespace tombolo::trust
