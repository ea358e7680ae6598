#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

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

TEST_F(File, ALinkIsFollowedAndStays) {
  ASSERT_TRUE(make_directories(at("there")));
  ASSERT_TRUE(write_file(at("there/real"), "old"));
  std::filesystem::create_symlink("there/real", at("link"));
  std::filesystem::create_symlink("link", at("link_to_link"));
  std::filesystem::create_symlink("there/new", at("dangling"));
  ASSERT_TRUE(write_file(at("link_to_link"), "new"));
  ASSERT_TRUE(write_file(at("dangling"), "created"));
  EXPECT_EQ(*read_file(at("there/real")), "new");
  EXPECT_EQ(*read_file(at("there/new")), "created");
  for (const char* link : {"link", "link_to_link", "dangling"})
    EXPECT_TRUE(std::filesystem::is_symlink(at(link))) << link;
  EXPECT_EQ(files(), 4u) << "no temporary file stays";

  std::filesystem::create_symlink("circle", at("circle"));
  EXPECT_EQ(write_file(at("circle"), "").error().message,
            at("circle") + ": cannot follow the link: Too many levels of symbolic links");
}

TEST_F(File, ItsModeStays) {
  ASSERT_TRUE(write_file(at("x"), "old"));
  ASSERT_EQ(chmod(at("x").c_str(), 0600), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(at("x").c_str(), 65534, 65534), 0);
  }
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(at("x").c_str(), &before), 0);
  ASSERT_TRUE(write_file(at("x"), "new"));
  ASSERT_EQ(stat(at("x").c_str(), &after), 0);
  EXPECT_EQ(*read_file(at("x")), "new");
  EXPECT_NE(before.st_ino, after.st_ino);  // replaced, not overwritten
  EXPECT_EQ(after.st_mode & 0777, 0600u);
  EXPECT_EQ(std::pair(after.st_uid, after.st_gid), std::pair(before.st_uid, before.st_gid));
}

TEST_F(File, AFifoIsWrittenInPlace) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = *read_file(at("fifo")); });
  EXPECT_TRUE(write_file(at("fifo"), "through"));
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(at("fifo")));
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, AFullDeviceSaysSoAndStays) {
  // As /dev/full, in a folder of our own.
  if (mknod(at("full").c_str(), S_IFCHR | 0666, makedev(1, 7)) != 0)
    GTEST_SKIP() << "this user may not make devices";
  const int fd = open(at("full").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "devices of this folder cannot be opened";
  close(fd);
  EXPECT_EQ(write_file(at("full"), "x").error().text(),
            at("full") +
                ": cannot write it: No space left on device\n"
                "  try freeing space, or another folder for the output");
  EXPECT_TRUE(std::filesystem::is_character_file(at("full")));
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, WhatStdoutGoesToIsNotReplaced) {
  const int old = dup(STDOUT_FILENO);
  const int fd = open(at("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  fflush(stdout);
  ASSERT_GE(dup2(fd, STDOUT_FILENO), 0);
  const ssize_t before = write(STDOUT_FILENO, "printed, ", 9);
  const Status by_name = write_file(at("out"), "written, ");
  const Status by_minus = write_file("-", "and again");
  dup2(old, STDOUT_FILENO);
  close(old);
  close(fd);
  EXPECT_TRUE(by_name && by_minus && before == 9);
  EXPECT_EQ(*read_file(at("out")), "printed, written, and again");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(File, AFifoTakesNoOtherName) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  const int reader = open(at("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Result<AtomicFile> file = AtomicFile::create(at("fifo"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->commit_as(at("x")).error().message,
            at("fifo") + ": no regular file, which cannot be renamed");
  close(reader);
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
  EXPECT_EQ(sibling_path("-", "wan.toml"), "wan.toml");
  EXPECT_EQ(sibling_path("/dev/fd/63", "wan.toml"), "wan.toml");
}

TEST(ByteOrderMark, IsLeftOutAtTheBeginning) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf{}"), "{}");
  EXPECT_EQ(without_byte_order_mark("{}\xef\xbb\xbf"), "{}\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
}

// Who looks what a file is reads it a second time.
TEST_F(File, WhatComesThroughAFifoIsReadAgain) {
  const std::string bytes(200'000, 'x');  // more than a pipe holds
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  std::thread writer([&] {
    const int fd = open(at("fifo").c_str(), O_WRONLY);
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    close(fd);
  });
  EXPECT_EQ(*read_file(at("fifo")), bytes);
  writer.join();
  EXPECT_EQ(*read_file(at("fifo")), bytes);
  EXPECT_FALSE(read_file(at("fifo"), 199'999));
  struct stat info {};
  ASSERT_EQ(stat(at("fifo").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_F(File, APipeBeyondTheLimitIsNotKeptWhole) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "12345", 5), 5);
  close(ends[1]);
  const std::string path = fmt::format("/proc/self/fd/{}", ends[0]);
  const auto text = read_file(path, 3);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().text().find("larger than the limit of 3 bytes"), std::string::npos);
  close(ends[0]);
}

}  // namespace
}  // namespace tombolo
