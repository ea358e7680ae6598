#include "base/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/folder_test.h"

namespace tombolo {
namespace {

class File : public FolderTest {
 protected:
  size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
};

TEST_F(File, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\xff\n", 5);
  ASSERT_TRUE(write_file(at("x"), bytes));
  EXPECT_EQ(*read_file(at("x")), bytes);
  ASSERT_TRUE(write_file(at("x"), "shorter"));
  EXPECT_EQ(*read_file(at("x")), "shorter");
  EXPECT_EQ(files(), 1u);
  struct stat info {};
  ASSERT_EQ(stat(at("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(File, WithoutCommitTheOldFileStays) {
  ASSERT_TRUE(write_file(at("x"), "old"));
  {
    Result<AtomicFile> file = AtomicFile::create(at("x"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("new"));
    EXPECT_EQ(*read_file(at("x")), "old");  // not before commit
    AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.write(" and more"));
  }
  EXPECT_EQ(*read_file(at("x")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, AFullDiskIsToldAndLeavesNothing) {
  // The file size limit stands for the full disk: write() comes back short, then fails.
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{1000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Status status = write_file(at("big"), std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);

  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text(),
            at("big") +
                ": cannot write it: File too large\n"
                "  try raising the file size limit (ulimit -f), or another folder for the output");
  EXPECT_EQ(status.error().exit_code(), 2);
  EXPECT_EQ(files(), 0u);
}

TEST_F(File, WhatCannotBeReadIsToldWithWhatToTry) {
  EXPECT_EQ(read_file(at("gone")).error().text(),
            at("gone") +
                ": cannot open it for reading: No such file or directory\n"
                "  try checking the spelling of the path");
  EXPECT_EQ(
      read_file(folder_).error().text(),
      folder_ + ": cannot read it: Is a directory\n  try the path of a file, not of a folder");
  EXPECT_EQ(read_file(folder_).error().exit_code(), 2);
}

TEST_F(File, PermissionsAreRespected) {
  ASSERT_TRUE(write_file(at("x"), "secret"));
  chmod(folder_.c_str(), 0755);
  chmod(at("x").c_str(), 0);
  const uid_t user = geteuid();
  // Root may read everything; "nobody" may not.
  ASSERT_EQ(seteuid(user == 0 ? 65534 : user), 0);
  const Result<std::string> text = read_file(at("x"));
  ASSERT_EQ(seteuid(user), 0);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().text(), at("x") +
                                     ": cannot open it for reading: Permission denied\n"
                                     "  try a path that this user may use");
}

TEST_F(File, TheLimitIsExact) {
  ASSERT_TRUE(write_file(at("x"), "12345"));
  EXPECT_TRUE(read_file(at("x"), 5));
  EXPECT_EQ(read_file(at("x"), 4).error().message, at("x") + ": larger than the limit of 4 bytes");
}

TEST_F(File, WritingWhereOneCannot) {
  EXPECT_EQ(write_file(at("no/such/x"), "").error().exit_code(), 2);
  EXPECT_EQ(write_file(folder_, "").error().message, folder_ + ": cannot write it: Is a directory");
  ASSERT_TRUE(write_file(at("x"), ""));
  EXPECT_FALSE(make_directories(at("x/inside")));
  EXPECT_TRUE(make_directories(at("a/b/c")));
  EXPECT_TRUE(make_directories(at("a/b/c")));
}

TEST_F(File, WhatIsCommittedTakesNoMore) {
  Result<AtomicFile> file = AtomicFile::create(at("x"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->commit());
  EXPECT_DEATH((void)file->write("more"), "4 bytes for .*x, which is committed or moved away");
  EXPECT_DEATH((void)file->commit(), "x is committed or moved away already");
}

TEST_F(File, IsReadInPartsAndNotBeyondItsEnd) {
  ASSERT_TRUE(write_file(at("x"), "0123456789"));
  std::string part(4, ' ');
  const std::span<std::byte> out(reinterpret_cast<std::byte*>(part.data()), part.size());
  ASSERT_TRUE(read_part(at("x"), 3, out));
  EXPECT_EQ(part, "3456");
  EXPECT_EQ(read_part(at("x"), 7, out).error().message, at("x") + ": it ends before byte 11");
  EXPECT_FALSE(read_part(at("y"), 0, out));
}

TEST_F(File, MayBeNamedAfterWhatItHolds) {
  Result<AtomicFile> file = AtomicFile::create(at("unfinished"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("abc"));
  ASSERT_TRUE(file->commit_as(at("abc")));
  EXPECT_EQ(*read_file(at("abc")), "abc");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, FoldersAreAskedBeforeAnythingIsWritten) {
  EXPECT_TRUE(check_writable(at("a/b")));
  EXPECT_TRUE(std::filesystem::is_empty(at("a/b")));
  EXPECT_TRUE(sync_folder(at("a/b")));
  ASSERT_TRUE(write_file(at("x"), ""));
  EXPECT_FALSE(check_writable(at("x/b")));
  EXPECT_FALSE(sync_folder(at("nowhere")));
}

TEST(Path, SiblingsAreRelativeToTheFolderOfTheFile) {
  EXPECT_EQ(sibling_path("examples/job.toml", "wan.toml"), "examples/wan.toml");
  EXPECT_EQ(sibling_path("job.toml", "wan.toml"), "wan.toml");
  EXPECT_EQ(sibling_path("examples/job.toml", "/etc/wan.toml"), "/etc/wan.toml");
}

}  // namespace
}  // namespace tombolo
