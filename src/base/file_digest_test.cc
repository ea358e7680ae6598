#include "base/file_digest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "support/folder_test.h"

namespace tombolo {
namespace {

using FileDigests = FolderTest;

TEST_F(FileDigests, AreThoseOfTheBytes) {
  const std::string path = at("bytes");
  const std::string bytes((3 << 20) + 7, 'x');  // several pieces
  ASSERT_TRUE(write_file(path, bytes));
  const FileDigest wanted{static_cast<int64_t>(bytes.size()), digest(bytes)};
  EXPECT_EQ(*digest_of_file(path), wanted);
  EXPECT_EQ(*digest_on_disk(path), wanted);
  std::filesystem::remove(path);
  EXPECT_FALSE(digest_of_file(path));
}

}  // namespace
}  // namespace tombolo
