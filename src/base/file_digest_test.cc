#include "base/file_digest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"

namespace tombolo {
namespace {

TEST(FileDigests, AreThoseOfTheBytes) {
  const std::string path = testing::TempDir() + "/file_digest_test";
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
