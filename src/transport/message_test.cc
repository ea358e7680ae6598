#include "transport/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

using testing::HasSubstr;

std::vector<Segment> segments(uint64_t total, uint32_t segment_max) {
  std::vector<Segment> out;
  for (Segmenter s(total, segment_max); !s.done();) out.push_back(s.next());
  return out;
}

TEST(Segmenter, CutsFromTheFrontAndLeavesTheRest) {
  EXPECT_EQ(segments(10, 4), (std::vector<Segment>{{0, 4}, {4, 4}, {8, 2}}));
  EXPECT_EQ(segments(8, 4), (std::vector<Segment>{{0, 4}, {4, 4}}));
  EXPECT_EQ(segments(3, 4), (std::vector<Segment>{{0, 3}}));
  EXPECT_EQ(segments(0, 4), (std::vector<Segment>{{0, 0}}));  // an empty message is still one
}

const Assembler::Options kOptions{.sender = 1, .epoch = 2, .message_max = 100};

FrameHeader header(uint64_t tag, uint64_t offset, uint64_t total, uint32_t length) {
  return {.sender = 1,
          .epoch = 2,
          .iteration = 3,
          .tag = tag,
          .offset = offset,
          .total = total,
          .length = length,
          .start = {10},
          .departed = {static_cast<int64_t>(20 + offset)}};
}

Result<std::optional<Message>> add(Assembler& assembler, const FrameHeader& h, char fill = 'x') {
  const Payload payload(h.length, static_cast<std::byte>(fill));
  return assembler.add({h, payload});
}

std::string error_of(Assembler& assembler, const FrameHeader& h) {
  const auto out = add(assembler, h);
  return out ? "no error" : out.error().message;
}

TEST(Assembler, JoinsTheSegmentsOfAMessage) {
  Assembler assembler(kOptions);
  EXPECT_FALSE(*add(assembler, header(7, 0, 5, 3), 'a'));
  const auto message = *add(assembler, header(7, 3, 5, 2), 'b');
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, (Tag{3, 7}));
  const std::byte a{'a'}, b{'b'};
  EXPECT_EQ(message->payload, (Payload{a, a, a, b, b}));
  EXPECT_EQ(message->start, SimTime{10});
  EXPECT_EQ(message->departed, SimTime{23});         // of the last segment
  EXPECT_TRUE(*add(assembler, header(8, 0, 0, 0)));  // an empty one, complete at once
}

TEST(Assembler, RefusesWhatDoesNotFitTogether) {
  Assembler assembler(kOptions);
  EXPECT_THAT(error_of(assembler, header(7, 3, 5, 2)), HasSubstr("at byte 3 where 0 was due"));
  ASSERT_TRUE(add(assembler, header(7, 0, 9, 3)));
  EXPECT_THAT(error_of(assembler, header(7, 4, 9, 2)), HasSubstr("at byte 4 where 3 was due"));
  EXPECT_THAT(error_of(assembler, header(7, 0, 9, 3)), HasSubstr("at byte 0 where 3 was due"));
  EXPECT_THAT(error_of(assembler, header(7, 3, 8, 2)), HasSubstr("(8 bytes) begins inside"));
  EXPECT_THAT(error_of(assembler, header(8, 0, 9, 2)), HasSubstr("tensor 8 (9 bytes) begins"));
  EXPECT_THAT(error_of(assembler, header(7, 3, 9, 0)), HasSubstr("an empty frame"));
}

TEST(Assembler, RefusesStrangersOtherEpochsAndGiants) {
  Assembler assembler(kOptions);
  FrameHeader stranger = header(7, 0, 5, 5);
  stranger.sender = 4;
  EXPECT_THAT(error_of(assembler, stranger), HasSubstr("rank 4 on the connection of rank 1"));
  FrameHeader late = header(7, 0, 5, 5);
  late.epoch = 1;
  EXPECT_THAT(error_of(assembler, late), HasSubstr("epoch 1 in epoch 2"));
  EXPECT_THAT(error_of(assembler, header(7, 0, 101, 5)), HasSubstr("101 bytes, the limit is 100"));
}

}  // namespace
}  // namespace tombolo::transport
