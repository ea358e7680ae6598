#include "perform/control/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::control {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class JournalTest : public FolderTest {
 protected:
  Journal open() {
    auto journal = Journal::open(path_);
    CHECK(journal, "{}", journal.error().text());
    return std::move(*journal);
  }
  std::string three_records() {
    Journal journal = open();
    for (const char* record : {"one", "two", "three"}) EXPECT_TRUE(journal.append(record));
    return *read_file(path_);
  }

  const std::string path_ = at("journal");
};

TEST_F(JournalTest, WhatWasAppendedIsThereAfterwards) {
  three_records();
  EXPECT_EQ(open().records(), (std::vector<std::string>{"one", "two", "three"}));
  ASSERT_TRUE(open().append("four"));
  EXPECT_EQ(open().records().size(), 4u);
  ASSERT_TRUE(open().begin_anew());
  EXPECT_TRUE(open().records().empty());
}

// A coordinator that is killed at any byte leaves the records before, and the next one continues.
TEST_F(JournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  const std::string whole = three_records();
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto lines = std::count(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(cut), '\n');
    const auto records = static_cast<size_t>(std::max<int64_t>(lines - 1, 0));
    const auto text = read_journal(whole.substr(0, cut), path_);
    ASSERT_TRUE(text) << text.error().text();
    ASSERT_EQ(text->records.size(), records) << cut;
    if (cut % 16 != 0) continue;  // a disk takes its time
    ASSERT_TRUE(write_file(path_, whole.substr(0, cut)));
    Journal journal = open();
    ASSERT_EQ(journal.records().size(), records) << cut;
    ASSERT_TRUE(journal.append("next"));
    const auto again = read_journal(*read_file(path_), path_);
    ASSERT_TRUE(again) << again.error().text();
    ASSERT_EQ(again->records.back(), "next");
  }
}

// Any changed byte of a record that others follow is found, and the place is named.
TEST_F(JournalTest, DamageInTheMiddleIsRefusedWithItsOffset) {
  const std::string whole = three_records();
  const size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1;
  for (size_t at = first; at < second - 1; ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    const auto read = read_journal(damaged, "journal");
    ASSERT_FALSE(read) << "byte " << at;
    ASSERT_THAT(read.error().message, HasSubstr(fmt::format("journal: damaged at byte {}", first)));
  }
  std::string missing = whole;
  missing.erase(first, second - first);
  EXPECT_FALSE(read_journal(missing, "journal")) << "a record that is gone is damage too";
}

TEST_F(JournalTest, AnotherFileIsNoJournal) {
  const auto other = read_journal("{\"loss\": 1}\n", "journal");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("journal: this is no journal of this version"));
  EXPECT_THAT(other.error().text(), HasSubstr("try the version of Tombolo that wrote it, or "
                                              "removing the file: the run then continues"));
  EXPECT_TRUE(read_journal("", "journal"));
}

TEST_F(JournalTest, OneCoordinatorAtATime) {
  const Journal first = open();
  const auto second = Journal::open(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().exit_code(), 2);
  EXPECT_THAT(second.error().text(), HasSubstr("another run works in this folder"));
}

TEST(Entries, AreReadBackEqual) {
  for (const Entry& entry :
       {Entry{.kind = Entry::Kind::kRun, .text = "digest"},
        Entry{.kind = Entry::Kind::kBegun, .epoch = 3, .step = 40},
        Entry{.kind = Entry::Kind::kLost, .epoch = 3, .step = 41, .text = "rank 1 \"was\"\nlost"},
        Entry{.kind = Entry::Kind::kEnded, .epoch = 3, .step = 41},
        Entry{.kind = Entry::Kind::kDone, .epoch = 3, .step = 50},
        Entry{.kind = Entry::Kind::kClosed, .epoch = 3, .step = 50, .text = "done"}}) {
    const auto back = parse_record(to_record(entry), "journal");
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, entry);
  }
  EXPECT_EQ(to_record({.kind = Entry::Kind::kBegun, .epoch = 3, .step = 40, .text = ""}).find('\n'),
            std::string::npos);
  EXPECT_FALSE(parse_record("{\"begun\": {\"epoch\": -1}}", "journal"));
  EXPECT_FALSE(parse_record("{\"bygone\": {}}", "journal"));
}

using JournalDeathTest = JournalTest;

TEST_F(JournalDeathTest, OnlyTheOwnerOfAJournalWrites) {
  Journal first = open();
  Journal second = std::move(first);
  EXPECT_TRUE(second.append("record"));
  EXPECT_DEATH(static_cast<void>(first.append("record")), "a journal that was moved away");
  EXPECT_DEATH(static_cast<void>(second.append("two\nlines")), "a record of 9 bytes");
  EXPECT_DEATH(to_record({.kind = Entry::Kind::kBegun, .epoch = 1, .step = -1, .text = ""}),
               "an entry of step -1");
}

}  // namespace
}  // namespace tombolo::control
