#include "perform/link/assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::link {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SeenNumbers, KeepsRunsAndNotNumbers) {
  SeenNumbers seen;
  EXPECT_EQ(seen.without_gap(), 0u);
  for (const uint64_t number : {2, 5, 4, 1}) seen.add(number);  // 1-2 and 4-5
  EXPECT_EQ(seen.runs(), 2u);
  EXPECT_EQ(seen.without_gap(), 2u);
  EXPECT_TRUE(seen.contains(5));
  EXPECT_FALSE(seen.contains(3));
  EXPECT_FALSE(seen.contains(6));
  seen.add(3);
  EXPECT_EQ(seen.runs(), 1u);
  EXPECT_EQ(seen.without_gap(), 5u);
}

// Frames of rank 1 in epoch 2, iteration 3. Tensor t is message t unless a test says otherwise.
FrameHeader header(uint64_t tensor, uint64_t offset, uint64_t total, uint32_t length) {
  return {.sender = 1,
          .epoch = 2,
          .iteration = 3,
          .tag = tensor,
          .message = tensor,
          .offset = offset,
          .total = total,
          .length = length,
          .start = {10},
          .departed = {static_cast<int64_t>(20 + offset)}};
}

class AssemblerTest : public testing::Test {
 protected:
  Result<std::vector<Message>> add(const FrameHeader& h, char fill = 'x') {
    return assembler_.add({h, Payload(h.length, static_cast<std::byte>(fill))});
  }
  std::vector<Message> added(const FrameHeader& h, char fill = 'x') {
    auto out = add(h, fill);
    EXPECT_TRUE(out) << out.error().text();
    return std::move(*out);
  }
  std::string error_of(const FrameHeader& h) {
    const auto out = add(h);
    return out ? "no error" : out.error().message;
  }

  Assembler assembler_{
      {.sender = 1, .epoch = 2, .message_max = 100, .open_bytes_max = 150, .open_max = 8}};
};

std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
}

TEST_F(AssemblerTest, SetsAsideNoMoreThanOneMessageMayHave) {
  // Three messages promise 60 bytes each, and send one. Set aside is room for one of them.
  for (const uint64_t tensor : {1, 2, 3}) EXPECT_TRUE(added(header(tensor, 0, 60, 1)).empty());
  EXPECT_EQ(assembler_.reserved(), 60u);
  EXPECT_EQ(assembler_.open_bytes(), 3u);
  EXPECT_EQ(added(header(1, 1, 60, 59)).size(), 1u);
  EXPECT_EQ(assembler_.reserved(), 0u);
  EXPECT_EQ(added(header(2, 1, 60, 59)).size(), 1u);
  EXPECT_EQ(assembler_.reserved(), 0u);
}

TEST_F(AssemblerTest, JoinsSegmentsInWhateverOrderTheyCome) {
  EXPECT_TRUE(added(header(7, 3, 6, 2), 'b').empty());
  EXPECT_TRUE(added(header(7, 5, 6, 1), 'c').empty());
  EXPECT_EQ(assembler_.open_bytes(), 3u);
  const auto messages = added(header(7, 0, 6, 3), 'a');
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].tag, (Tag{3, 7}));
  EXPECT_EQ(text_of(messages[0]), "aaabbc");
  EXPECT_EQ(messages[0].start, SimTime{10});
  EXPECT_EQ(messages[0].departed, SimTime{25});  // the latest, of the segment at 5
  EXPECT_EQ(assembler_.open_bytes(), 0u);
}

TEST_F(AssemblerTest, MessagesMayInterleave) {
  EXPECT_TRUE(added(header(1, 0, 4, 2)).empty());
  EXPECT_EQ(added(header(2, 0, 0, 0)).size(), 1u);  // an empty one, complete at once
  EXPECT_EQ(assembler_.complete(), 0u);
  EXPECT_EQ(added(header(1, 2, 4, 2)).size(), 1u);
  EXPECT_EQ(assembler_.complete(), 2u);
}

// Three messages of one tag, the last one first.
TEST_F(AssemblerTest, EqualTagsLeaveInTheOrderOfTheirNumbers) {
  FrameHeader first = header(1, 0, 1, 1), second = first, third = first;
  second.message = 2;
  second.after = 1;
  third.message = 3;
  third.after = 2;
  EXPECT_TRUE(added(third, 'c').empty());
  EXPECT_TRUE(added(second, 'b').empty());
  EXPECT_THAT(error_of(second),
              HasSubstr("message 2 (iteration 3 tensor 1) continues after its end"));
  std::vector<std::string> texts;
  for (const Message& message : added(first, 'a')) texts.push_back(text_of(message));
  EXPECT_THAT(texts, ElementsAre("a", "b", "c"));
  EXPECT_EQ(assembler_.complete(), 3u);
}

TEST_F(AssemblerTest, RefusesBytesThatCameBefore) {
  ASSERT_TRUE(add(header(7, 0, 20, 4)));
  ASSERT_TRUE(add(header(7, 8, 20, 4)));  // now 0-4 and 8-12 are there
  EXPECT_THAT(error_of(header(7, 0, 20, 4)), HasSubstr("4 bytes at byte 0 of"));
  EXPECT_THAT(error_of(header(7, 3, 20, 2)), HasSubstr("came before"));
  EXPECT_THAT(error_of(header(7, 8, 20, 4)), HasSubstr("came before"));
  EXPECT_THAT(error_of(header(7, 11, 20, 2)), HasSubstr("came before"));
  EXPECT_THAT(error_of(header(7, 6, 20, 3)), HasSubstr("came before"));
  EXPECT_THAT(error_of(header(7, 6, 20, 14)), HasSubstr("came before"));
  EXPECT_TRUE(add(header(7, 4, 20, 4)));
  EXPECT_EQ(added(header(7, 12, 20, 8)).size(), 1u);
  EXPECT_THAT(error_of(header(7, 0, 20, 4)), HasSubstr("continues after its end"));
}

// A sender whose connection was lost cannot know what arrived, so it sends again.
TEST_F(AssemblerTest, DropsRepeatedBytesWhereTheyAreAllowed) {
  assembler_.allow_repeats();
  EXPECT_TRUE(added(header(7, 0, 20, 4)).empty());
  EXPECT_TRUE(added(header(7, 8, 20, 4)).empty());  // now 0-4 and 8-12 are there
  EXPECT_TRUE(added(header(7, 0, 20, 4)).empty());
  EXPECT_TRUE(added(header(7, 1, 20, 2)).empty());
  EXPECT_TRUE(added(header(7, 8, 20, 4)).empty());
  EXPECT_TRUE(added(header(7, 9, 20, 3)).empty());
  EXPECT_EQ(assembler_.open_bytes(), 8u) << "they count once";
  EXPECT_TRUE(added(header(7, 4, 20, 4)).empty());
  EXPECT_TRUE(added(header(7, 6, 20, 4)).empty());  // over the seam
  const auto whole = added(header(7, 12, 20, 8));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(text_of(whole[0]), std::string(20, 'x'));
  EXPECT_TRUE(added(header(7, 12, 20, 8)).empty()) << "not a second time";
  EXPECT_EQ(added(header(1, 0, 0, 0)).size(), 1u);
  EXPECT_TRUE(added(header(1, 0, 0, 0)).empty());
}

TEST_F(AssemblerTest, RepeatsThatSayOtherwiseAreRefused) {
  assembler_.allow_repeats();
  ASSERT_TRUE(add(header(7, 0, 20, 4)));
  ASSERT_TRUE(add(header(7, 8, 20, 4)));
  const auto other_bytes = add(header(7, 0, 20, 4), 'y');
  ASSERT_FALSE(other_bytes);
  EXPECT_THAT(other_bytes.error().message, HasSubstr("came before, and were others or fewer"));
  EXPECT_FALSE(add(header(7, 8, 20, 4), 'y'));
  EXPECT_THAT(error_of(header(7, 2, 20, 4)), HasSubstr("others or fewer"));  // half of it is new
  EXPECT_THAT(error_of(header(7, 6, 20, 4)), HasSubstr("others or fewer"));  // and here
  EXPECT_THAT(error_of(header(7, 0, 21, 4)), HasSubstr("(20 bytes) and"));
  FrameHeader held = header(9, 0, 1, 1);
  held.after = 8;
  EXPECT_TRUE(added(held).empty());
  EXPECT_TRUE(added(held).empty());
  held.after = 7;
  EXPECT_THAT(error_of(held), HasSubstr("message 9 is"));
}

TEST_F(AssemblerTest, RefusesWhatDoesNotFitTogether) {
  ASSERT_TRUE(add(header(7, 0, 9, 3)));
  EXPECT_THAT(error_of(header(7, 3, 8, 2)), HasSubstr("(9 bytes) and iteration 3 tensor 7 (8 by"));
  FrameHeader other = header(8, 3, 9, 2);
  other.message = 7;
  EXPECT_THAT(error_of(other), HasSubstr("message 7 is iteration 3 tensor 7"));
  EXPECT_THAT(error_of(header(7, 3, 9, 0)), HasSubstr("an empty frame"));
  FrameHeader ahead = header(5, 0, 1, 1);
  ahead.after = 5;
  EXPECT_EQ(error_of(ahead), "message 5 after message 5");
  EXPECT_EQ(error_of(header(0, 0, 1, 1)), "message 0 after message 0");
}

TEST_F(AssemblerTest, RefusesStrangersOtherEpochsAndGiants) {
  FrameHeader stranger = header(7, 0, 5, 5);
  stranger.sender = 4;
  EXPECT_THAT(error_of(stranger), HasSubstr("rank 4 on the connection of rank 1"));
  FrameHeader late = header(7, 0, 5, 5);
  late.epoch = 1;
  EXPECT_THAT(error_of(late), HasSubstr("epoch 1 in epoch 2"));
  EXPECT_THAT(error_of(header(7, 0, 101, 5)), HasSubstr("101 bytes, the limit is 100"));
}

TEST_F(AssemblerTest, IncompleteMessagesAreBounded) {
  ASSERT_TRUE(add(header(1, 10, 100, 90)));
  EXPECT_THAT(error_of(header(2, 10, 100, 61)), HasSubstr("more than 150 bytes of incomplete"));
  for (uint64_t number = 2; number <= 8; ++number) ASSERT_TRUE(add(header(number, 0, 2, 1)));
  EXPECT_EQ(error_of(header(9, 0, 2, 1)), "more than 8 incomplete messages");
  EXPECT_EQ(added(header(2, 1, 2, 1)).size(), 1u);  // those that are known may continue
}

// Every second number stays away: gaps cost memory as well.
TEST_F(AssemblerTest, GapsAreBounded) {
  for (uint64_t number = 1; number <= 15; number += 2) ASSERT_TRUE(add(header(number, 0, 1, 1)));
  EXPECT_EQ(error_of(header(17, 0, 1, 1)), "more than 8 incomplete messages");
}

}  // namespace
}  // namespace tombolo::link
