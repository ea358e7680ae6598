#include "perform/trust/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "perform/trust/authority.h"
#include "support/folder_test.h"

namespace tombolo::trust {
namespace {

using std::chrono::hours;
using testing::HasSubstr;
using testing::Not;

class CredentialsTest : public FolderTest {
 protected:
  const WallTime now_{std::chrono::seconds(1'700'000'000)};  // 2023-11-14 22:13:20
  const Authority authority_ = *Authority::create(now_);
};

TEST_F(CredentialsTest, WhatWasSavedIsRead) {
  const Credentials made = *authority_.issue("paris-1", host_validity(now_));
  const std::string at = folder_ + "/own";
  ASSERT_TRUE(save_credentials(at, made));
  const auto read = load_credentials(at, now_);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->key, made.key);
  const CertificateFacts facts = *check(*read, now_);
  EXPECT_EQ(facts.name, "paris-1");
  EXPECT_EQ(facts.begins, now_ - hours(1));
  EXPECT_EQ(facts.expires, now_ + hours(24 * 90));
  struct stat about {};
  ASSERT_EQ(stat((at + "/host.key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(CredentialsTest, ACertificateIsRenewedForTheSameKey) {
  const Credentials made = *authority_.issue("paris", host_validity(now_));
  ASSERT_TRUE(save_credentials(folder_, made));
  const CertificateFacts facts = *certificate_in(folder_);
  EXPECT_EQ(expiry_warning(facts, now_ + hours(24 * 75)), "");
  const WallTime late = now_ + hours(24 * 77 + 12);
  EXPECT_THAT(expiry_warning(facts, late),
              HasSubstr("\"paris\" expires on 2024-02-12 22:13 UTC, in 12 days"));
  EXPECT_THAT(expiry_warning(facts, now_ + hours(24 * 89 + 12)), HasSubstr(", in 12 h; "));
  EXPECT_THAT(expiry_warning(facts, now_ + hours(24 * 91)), HasSubstr("expired on 2024-02-12"));
  const CertificateFacts of_a_year{"paris", now_, now_ + hours(24 * 365)};
  EXPECT_EQ(expiry_warning(of_a_year, now_ + hours(24 * 328)), "");
  EXPECT_THAT(expiry_warning(of_a_year, now_ + hours(24 * 329)), HasSubstr("in 36 days"));
  // Also when it has expired.
  const WallTime later = now_ + hours(24 * 100);
  EXPECT_FALSE(load_credentials(folder_, later));
  const Credentials renewed = *authority_.renew(*read_credentials(folder_), later);
  ASSERT_TRUE(renew_certificate(folder_, renewed, later));
  const Credentials now = *load_credentials(folder_, later);
  EXPECT_EQ(now.key, made.key);
  EXPECT_EQ(check(now, later)->expires, later + hours(24 * 90));
  EXPECT_EQ(check(now, later)->name, "paris");
}

TEST_F(CredentialsTest, OnlyWhatBelongsToThisHostRenewsIt) {
  const Credentials made = *authority_.issue("paris", host_validity(now_));
  ASSERT_TRUE(save_credentials(folder_, made));
  const auto refused = [&](const Credentials& other) {
    const Status status = renew_certificate(folder_, other, now_);
    EXPECT_EQ(read_credentials(folder_)->certificate, made.certificate);
    return status ? "" : status.error().text();
  };
  EXPECT_THAT(refused(*authority_.issue("paris", host_validity(now_))), HasSubstr("the same key"));
  const Authority foreign = *Authority::create(now_);
  EXPECT_THAT(refused(*foreign.renew(made, now_)), HasSubstr("another authority"));
  const SigningRequest own = *make_request(made.key);
  EXPECT_THAT(refused({made.authority, *authority_.sign(own.request, "lima", host_validity(now_)),
                       made.key}),
              HasSubstr("this host is \"paris\", the new certificate is of \"lima\""));
}

TEST_F(CredentialsTest, NothingIsOverwritten) {
  ASSERT_TRUE(authority_.save(folder_));
  EXPECT_FALSE(authority_.save(folder_));
  const Credentials made = *authority_.issue("paris", host_validity(now_));
  ASSERT_TRUE(save_credentials(folder_, made));
  EXPECT_THAT(save_credentials(folder_, made).error().text(), HasSubstr("is there already"));
}

TEST_F(CredentialsTest, HostsAreRefusedByTheirNames) {
  ASSERT_TRUE(save_credentials(folder_, *authority_.issue("oregon", host_validity(now_))));
  EXPECT_TRUE(load_credentials(folder_, now_)->refused.empty());
  ASSERT_TRUE(refuse_host(folder_, "paris"));
  ASSERT_TRUE(refuse_host(folder_, "lima-2"));
  ASSERT_TRUE(refuse_host(folder_, "paris"));
  EXPECT_EQ(*read_file(folder_ + "/refused"), "lima-2\nparis\n");
  EXPECT_THAT(load_credentials(folder_, now_)->refused, testing::ElementsAre("lima-2", "paris"));
  EXPECT_EQ(refuse_host(folder_, "oregon").error().message, "\"oregon\" is this host itself");
  EXPECT_FALSE(refuse_host(folder_, "no name"));
  ASSERT_TRUE(write_file(folder_ + "/refused", "paris\n\nli ma\n"));
  EXPECT_THAT(load_credentials(folder_, now_).error().text(), HasSubstr("/refused:3"));
}

// It may be an existing folder that other users use as well.
TEST_F(CredentialsTest, AFolderThatWasThereKeepsItsMode) {
  const std::string there = folder_ + "/there", made = folder_ + "/made";
  std::filesystem::create_directories(there);
  ASSERT_EQ(chmod(there.c_str(), 0755), 0);
  const Credentials own = *authority_.issue("paris", host_validity(now_));
  for (const std::string& each : {there, made}) ASSERT_TRUE(save_credentials(each, own));
  const auto mode = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  EXPECT_EQ(mode(there), 0755u);
  EXPECT_EQ(mode(made), 0700u);
  EXPECT_EQ(mode(there + "/host.key"), 0600u);
}

TEST_F(CredentialsTest, AKeyThatOthersCanReadIsRefused) {
  ASSERT_TRUE(save_credentials(folder_, *authority_.issue("paris", host_validity(now_))));
  ASSERT_EQ(chmod((folder_ + "/host.key").c_str(), 0640), 0);
  const auto read = load_credentials(folder_, now_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(read.error().text(), HasSubstr("others than this user can read"));
}

TEST_F(CredentialsTest, AnExpiredCertificateSaysWhatToDo) {
  ASSERT_TRUE(save_credentials(folder_, *authority_.issue("paris", {now_ - hours(2), now_})));
  const auto read = load_credentials(folder_, now_);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(),
              HasSubstr("the certificate of \"paris\" expired on 2023-11-14 22:13 UTC"));
  EXPECT_THAT(read.error().text(), HasSubstr("tombolo init --renew"));
  EXPECT_THAT(load_credentials(folder_, now_ - hours(3)).error().text(), HasSubstr("clock"));
}

TEST_F(CredentialsTest, PartsThatDoNotBelongTogetherAreRefused) {
  const Validity always = host_validity(now_);
  const Credentials one = *authority_.issue("paris", always);
  const Credentials two = *Authority::create(now_)->issue("paris", always);
  EXPECT_THAT(check({one.authority, one.certificate, two.key}, now_).error().message,
              HasSubstr("not the key of"));
  EXPECT_THAT(check({two.authority, one.certificate, one.key}, now_).error().message,
              HasSubstr("not signed by"));
  for (const std::string& broken : {std::string(), std::string("-----BEGIN CERTIFICATE-----\n"),
                                    one.key.substr(0, one.key.size() / 2)}) {
    EXPECT_FALSE(check({broken, one.certificate, one.key}, now_));
    EXPECT_FALSE(check({one.authority, broken, one.key}, now_));
    const auto no_key = check({one.authority, one.certificate, broken}, now_);
    ASSERT_FALSE(no_key);
    EXPECT_THAT(no_key.error().text(), Not(HasSubstr("BEGIN")));
  }
}

TEST_F(CredentialsTest, MissingCredentialsSayHowToGetThem) {
  EXPECT_THAT(load_credentials(folder_, now_).error().text(), HasSubstr("tombolo init"));
  EXPECT_FALSE(has_credentials(folder_));
  EXPECT_FALSE(has_credentials(""));
}

TEST_F(CredentialsTest, AnAuthorityComesBackFromItsFolder) {
  ASSERT_TRUE(authority_.save(folder_));
  ASSERT_TRUE(write_file(folder_ + "/authority.pem", authority_.certificate()));
  const auto again = Authority::load(folder_);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(check(*again->issue("lima", host_validity(now_)), now_));
}

// The name in a request does not count, its key does; and the name cannot smuggle an extension.
TEST_F(CredentialsTest, TheAuthorityDecidesTheName) {
  const SigningRequest request = *make_request();
  const std::string certificate = *authority_.sign(request.request, "lima", host_validity(now_));
  EXPECT_EQ(check({authority_.certificate(), certificate, request.key}, now_)->name, "lima");
  EXPECT_FALSE(authority_.sign(request.request, "lima,DNS:paris", host_validity(now_)));
  EXPECT_FALSE(authority_.sign("nonsense", "lima", host_validity(now_)));
  EXPECT_FALSE(check_name("a b"));
  EXPECT_FALSE(check_name(""));
  EXPECT_FALSE(check_name(std::string(64, 'a')));
}

}  // namespace
}  // namespace tombolo::trust
