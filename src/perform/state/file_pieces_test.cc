#include "perform/state/file_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tombolo::state {
namespace {

using ::testing::HasSubstr;

FilePiece piece_of(const FileRequest& asked) {
  return {.id = asked.id,
          .error = {},
          .bytes = link::Payload(static_cast<size_t>(asked.bytes),
                                 static_cast<std::byte>(asked.offset / kPieceMax))};
}

TEST(PieceWindow, AsksForAFewAheadAndForEachOnce) {
  PieceWindow window({.id = 5, .file = "x", .offset = 100, .bytes = 10 * kPieceMax + 1});
  EXPECT_EQ(window.end_id(), 16);
  std::deque<FileRequest> on_their_way;
  int64_t next = 100, pieces = 0;
  size_t most = 0;
  while (!window.done()) {
    while (const auto asked = window.ask()) {
      EXPECT_EQ(asked->offset, next);
      EXPECT_LE(asked->bytes, kPieceMax);
      next += asked->bytes;
      on_their_way.push_back(*asked);
    }
    most = std::max(most, on_their_way.size());
    ASSERT_TRUE(window.add(piece_of(on_their_way.front())));
    on_their_way.pop_front();
    ++pieces;
  }
  EXPECT_EQ(next, 100 + 10 * kPieceMax + 1);
  EXPECT_EQ(pieces, 11);
  EXPECT_EQ(most, static_cast<size_t>(kPiecesAhead));
  EXPECT_TRUE(PieceWindow({.file = "empty"}).done());
}

TEST(PieceWindow, RefusesWhatIsNotDue) {
  PieceWindow window({.id = 5, .file = "x", .bytes = 2 * kPieceMax});
  EXPECT_FALSE(window.add({.id = 5, .error = {}})) << "nothing was asked for";
  const auto first = window.ask(), second = window.ask();
  ASSERT_TRUE(first && second);
  EXPECT_THAT(window.add(piece_of(*second)).error().text(), HasSubstr("piece 5 was due"));
  EXPECT_THAT(window.add({.id = 5, .error = {}, .bytes = link::Payload(3)}).error().text(),
              HasSubstr("of 3 bytes came"));
  EXPECT_THAT(window.add({.id = 5, .error = "no host has it"}).error().text(),
              HasSubstr("x: no host has it"));
}

TEST(PieceFetcher, PutsAFileTogether) {
  PieceFetcher* self = nullptr;
  SystemClock clock;
  PieceFetcher fetcher(
      [&](const StateMessage& message) -> Status {
        self->take(piece_of(std::get<FileRequest>(message)));
        return {};
      },
      clock);
  self = &fetcher;
  const auto bytes = fetcher.fetch({.file = "x", .bytes = 6 * kPieceMax + 7});
  ASSERT_TRUE(bytes) << bytes.error().text();
  ASSERT_EQ(bytes->size(), static_cast<size_t>(6 * kPieceMax + 7));
  for (size_t i = 0; i <= 6; ++i)
    EXPECT_EQ((*bytes)[i * static_cast<size_t>(kPieceMax)], static_cast<std::byte>(i));
  EXPECT_EQ(fetcher.fetch({.file = "y", .bytes = 3})->size(), 3u) << "and the next one";
}

TEST(PieceFetcher, StopsWaitingWhenTheRunDoes) {
  SystemClock clock;
  PieceFetcher fetcher([](const StateMessage&) { return Status(); }, clock);
  std::thread stopper([&] { fetcher.stop({ErrorCode::kLostPeer, "rank 3 was lost"}); });
  EXPECT_THAT(fetcher.fetch({.file = "x", .bytes = 1}).error().text(),
              HasSubstr("rank 3 was lost"));
  stopper.join();
}

}  // namespace
}  // namespace tombolo::state
