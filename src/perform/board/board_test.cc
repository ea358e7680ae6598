// Boards as dashboards find them: what a step says, once, whatever happened to the run.
#include "perform/board/board.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <bit>
#include <filesystem>

#include "base/csv.h"
#include "base/file.h"
#include "perform/board/event_file.h"
#include "spec/chakra/wire.h"
#include "support/folder_test.h"

namespace tombolo::board {
namespace {

using chakra::WireField;
using chakra::WireReader;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

uint64_t little_endian(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<uint8_t>(bytes[i]);
  return out;
}

std::vector<WireField> fields_of(std::string_view bytes) {
  std::vector<WireField> out;
  WireReader reader(bytes);
  while (!reader.done()) {
    EXPECT_TRUE(reader.next(out.emplace_back())) << reader.problem();
  }
  return out;
}

// An event as TensorBoard sees it: "3 emulated/loss=2.5", "start 3", "brain.Event:2".
std::string told(std::string_view event) {
  std::string out;
  uint64_t step = 0;
  for (const WireField& field : fields_of(event)) {
    if (field.number == 2) step = field.value;
    if (field.number == 3) return std::string(field.bytes);
    if (field.number == 7) return fmt::format("start {}", step);
    if (field.number != 5) continue;
    out = fmt::format("{}", step);
    for (const WireField& value : fields_of(field.bytes)) {
      const auto parts = fields_of(value.bytes);
      out += fmt::format(" {}={}", parts.at(0).bytes,
                         std::bit_cast<float>(static_cast<uint32_t>(parts.at(1).value)));
    }
  }
  return out;
}

std::vector<std::string> events_of(std::string_view bytes) {
  const auto unmasked = [](uint64_t crc) {
    return std::rotl(static_cast<uint32_t>(crc) - 0xA282EAD8, 15);
  };
  std::vector<std::string> out;
  while (!bytes.empty()) {
    const size_t size = little_endian(bytes.substr(0, 8));
    EXPECT_EQ(unmasked(little_endian(bytes.substr(8, 4))), crc32c(bytes.substr(0, 8)));
    const std::string_view event = bytes.substr(12, size);
    EXPECT_EQ(unmasked(little_endian(bytes.substr(12 + size, 4))), crc32c(event));
    out.push_back(told(event));
    bytes.remove_prefix(16 + size);
  }
  return out;
}

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);              // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);    // B.4: 32 bytes of zeroes,
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);  // and of ones
}

class BoardTest : public FolderTest {
 protected:
  Board open(int64_t process = 1) {
    auto board = Board::open({.folder = at("board"),
                              .provenance = "emulated",
                              .columns = {"loss", "mfu"},
                              .host = "oregon-0",
                              .process = process,
                              .wall_time = 1763900000.5});
    CHECK(board, "{}", board.error().text());
    return std::move(*board);
  }
  std::string text(const std::string& name) const { return *read_file(at("board/" + name)); }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    const auto rows = parse_csv(text("steps.csv"), "steps.csv");
    EXPECT_TRUE(rows);
    for (const CsvRow& row : *rows) out.push_back(*row.count("step"));
    return out;
  }
  static Status add(Board& board, int64_t step, std::optional<double> mfu = {}) {
    const std::optional<double> values[] = {1.0 / static_cast<double>(step), mfu};
    return board.add(step, 1763900000 + static_cast<double>(step), values);
  }
};

TEST_F(BoardTest, SaysTheSameInThreeWays) {
  Board board = open();
  ASSERT_TRUE(add(board, 1, 0.25));
  ASSERT_TRUE(add(board, 2));
  EXPECT_EQ(
      text("steps.jsonl"),
      "{\"step\":1,\"time\":1763900001.0,\"provenance\":\"emulated\",\"loss\":1.0,\"mfu\":0.25}\n"
      "{\"step\":2,\"time\":1763900002.0,\"provenance\":\"emulated\",\"loss\":0.5,\"mfu\":null}\n");
  EXPECT_EQ(text("steps.csv"),
            "step,time,provenance,loss,mfu\n1,1763900001.000,emulated,1,0.25\n"
            "2,1763900002.000,emulated,0.5,\n");
  EXPECT_THAT(events_of(text("events.out.tfevents.1763900000.oregon-0.1")),
              ElementsAre("brain.Event:2", "start 1", "1 emulated/loss=1 emulated/mfu=0.25",
                          "2 emulated/loss=0.5"));
}

TEST_F(BoardTest, AStepThatComesAgainStandsThereOnce) {
  Board board = open();
  for (const int64_t step : {1, 2, 3, 4, 3, 4}) ASSERT_TRUE(add(board, step));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(
      events_of(text("events.out.tfevents.1763900000.oregon-0.1")),
      ElementsAre("brain.Event:2", "start 1", "1 emulated/loss=1", "2 emulated/loss=0.5",
                  testing::StartsWith("3 emulated/loss=0.333"), "4 emulated/loss=0.25", "start 3",
                  testing::StartsWith("3 emulated/loss=0.333"), "4 emulated/loss=0.25"));
}

TEST_F(BoardTest, AResumedRunGoesOnInTheSameFiles) {
  {
    Board board = open();
    for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(add(board, step));
  }
  Board board = open(2);
  ASSERT_TRUE(add(board, 3));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
  EXPECT_THAT(
      events_of(text("events.out.tfevents.1763900000.oregon-0.2")),
      ElementsAre("brain.Event:2", "start 3", testing::StartsWith("3 emulated/loss=0.333")));
}

TEST_F(BoardTest, AnotherRunReplacesWhatWasThere) {
  {
    Board board = open();
    for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(add(board, step));
  }
  Board board = open();
  ASSERT_TRUE(add(board, 1));
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(BoardTest, KilledInTheMiddleOfALine) {
  {
    Board board = open();
    for (const int64_t step : {1, 2}) ASSERT_TRUE(add(board, step));
  }
  for (const char* name : {"steps.csv", "steps.jsonl"}) {
    const std::string whole = text(name);
    for (size_t left = 0; left <= whole.size(); ++left) {
      std::filesystem::resize_file(at("board/" + std::string(name)), left);
      Board board = open();
      ASSERT_TRUE(add(board, 2)) << name << " cut after " << left << " bytes";
      const std::string now = text(name);
      const std::string last = whole.substr(whole.rfind('\n', whole.size() - 2) + 1);
      EXPECT_TRUE(now.ends_with(last) && now.size() <= whole.size()) << now;
      ASSERT_TRUE(write_file(at("board/" + std::string(name)), whole));
    }
  }
}

TEST_F(BoardTest, OtherColumnsAreRefused) {
  static_cast<void>(open());
  const auto refused = Board::open({.folder = at("board"), .columns = {"loss"}, .host = "h"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(),
              HasSubstr("it has other columns than \"step,time,provenance,loss\""));
  EXPECT_EQ(refused.error().exit_code(), 2);
}

TEST_F(BoardTest, AFileThatHoldsNoSteps) {
  const std::string path = at("board/steps.csv");
  ASSERT_TRUE(make_directories(at("board")) && write_file(path, std::string(100'000, 'x')));
  const auto refused = Board::open({.folder = at("board"), .columns = {"loss"}, .host = "h"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("a line of more than 65534 bytes"));
  EXPECT_EQ(std::filesystem::file_size(path), 100'000u);
}

TEST_F(BoardTest, AFullDiskIsSaid) {
  Board board = open();
  ASSERT_TRUE(add(board, 1));
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit full { text("steps.jsonl").size() + 20, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &full);
  const Status refused = add(board, 2);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("steps.jsonl: cannot write to it: No space left"));
  EXPECT_EQ(refused.error().exit_code(), 2);
  Board again = open(2);
  ASSERT_TRUE(add(again, 2)) << "what was half written is gone";
  EXPECT_THAT(steps(), ElementsAre(1, 2));
}

TEST(BoardDeathTest, CallersKeepTheirPromises) {
  EXPECT_DEATH(static_cast<void>(Board::open({})), "a board that shows nothing");
}

}  // namespace
}  // namespace tombolo::board
