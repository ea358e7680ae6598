#include "perform/join/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::join {
namespace {

using testing::HasSubstr;
using testing::Not;

const LaunchedRank kSecondOfTwo{.launcher = "Open MPI", .rank = 1, .ranks = 2};

std::string meeting(const std::string& wanted, const std::string& host = {}, uint16_t port = 0,
                    const std::optional<cluster::Islands>& islands = std::nullopt) {
  LaunchedRank launched = kSecondOfTwo;
  launched.rendezvous_host = host;
  launched.rendezvous_port = port;
  const auto at = rendezvous_address(wanted, launched, islands);
  return at ? at->text() : at.error().message;
}

TEST(Rendezvous, TheCommandLineBeatsTheLauncherAndThatTheDefault) {
  EXPECT_EQ(meeting(""), "127.0.0.1:29511");
  EXPECT_EQ(meeting("", "localhost", 4000), "127.0.0.1:4000");
  EXPECT_EQ(meeting("localhost:5000", "localhost", 4000), "127.0.0.1:5000");
  EXPECT_THAT(meeting("5000"), HasSubstr("not an address with a port"));
}

TEST(Rendezvous, ThisHostByNameMeansItsLoopback) {
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(meeting("", name, 4000), "127.0.0.1:4000");
  EXPECT_EQ(meeting("", std::string(name) + ".example.org", 4000), "127.0.0.1:4000");
  EXPECT_THAT(meeting("192.0.2.1:1"), HasSubstr("192.0.2.1 is not on this host"));
}

TEST(Rendezvous, InIslandsItIsTheFirstHostUnlessAnotherIsNamed) {
  const cluster::Islands islands{.network = "10.77.0.0/16",
                                 .hosts = {{"oregon-0", "oregon", 0, "10.77.1.1", "/a"},
                                           {"paris-0", "paris", 0, "10.77.2.1", "/b"}}};
  EXPECT_EQ(meeting("", "", 0, islands), "10.77.1.1:29511");
  EXPECT_EQ(meeting("", "127.0.0.1", 4000, islands), "10.77.1.1:4000");
  EXPECT_EQ(meeting("10.77.2.1:5000", "", 0, islands), "10.77.2.1:5000");
  EXPECT_EQ(meeting("paris-0:5000", "", 0, islands), "10.77.2.1:5000");
  EXPECT_THAT(meeting("192.0.2.1:1", "", 0, islands), HasSubstr("no host of these islands"));
}

class TokenFiles : public FolderTest {
 protected:
  const std::string path_ = token_path(folder_);
};

TEST_F(TokenFiles, AreThereForTheirOwnerAsLongAsTheyAreNeeded) {
  EXPECT_FALSE(read_token_file(path_)->has_value()) << "not yet";
  const link::Token token = *link::Token::random();
  {
    const auto file = TokenFile::create(path_, token);
    ASSERT_TRUE(file) << file.error().text();
    struct stat about {};
    ASSERT_EQ(stat(path_.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
    EXPECT_EQ((*read_token_file(path_))->hex(), token.hex());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TokenFiles, ThatOthersCanReadAreRefusedWithoutRepeatingThem) {
  const std::string hex = link::Token::random()->hex();
  ASSERT_TRUE(write_file(path_, hex));
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const auto token = read_token_file(path_);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().exit_code(), 2);
  EXPECT_THAT(token.error().text(), HasSubstr("others than this user"));
  EXPECT_THAT(token.error().text(), Not(HasSubstr(hex)));
}

TEST_F(TokenFiles, CannotBeWrittenWhereThereIsNoFolder) {
  const auto file = TokenFile::create(folder_ + "/none/token", *link::Token::random());
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text(), HasSubstr("TOMBOLO_TOKEN for all"));
}

}  // namespace
}  // namespace tombolo::join
