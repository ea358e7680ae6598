#include "perform/transport/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tombolo::transport {
namespace {

using testing::HasSubstr;

TEST(Addresses, AreAHostAndAPort) {
  const auto address = parse_address("10.77.1.2:29511");
  ASSERT_TRUE(address);
  EXPECT_EQ(*address, (Address{"10.77.1.2", 29511}));
  EXPECT_EQ(address->text(), "10.77.1.2:29511");
  EXPECT_TRUE(parse_address("localhost:1"));
  EXPECT_EQ(*parse_address("[fd00::2]:29511"), (Address{"fd00::2", 29511}));
  EXPECT_EQ((Address{"fd00::2", 29511}.text()), "[fd00::2]:29511");
  for (const char* wrong : {"[]:5", "[10.77.1.2]:5", "[::1]", "[::1:5", "", "10.77.1.2", ":29511",
                            "host:", "host:65536", "host:-1", "host:1x", "::1:5"}) {
    EXPECT_FALSE(parse_address(wrong)) << wrong;
  }
}

TEST(Addresses, WithoutIslandsOnlyLoopbackIsAllowed) {
  EXPECT_TRUE(check_stays_here("127.0.0.1", ""));
  EXPECT_TRUE(check_stays_here("127.1.2.3", ""));
  const Status outside = check_stays_here("10.77.1.2", "");
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().exit_code(), 2);
  EXPECT_THAT(outside.error().text(), HasSubstr("plain TCP stays on this host"));
  EXPECT_THAT(check_stays_here("example.org", "").error().text(), HasSubstr("no IPv4 or IPv6"));
}

TEST(Addresses, OfTheSixthVersionFollowTheSameRules) {
  EXPECT_TRUE(check_stays_here("::1", ""));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(check_stays_here("fd00::2", "10.77.0.0/16"));
  EXPECT_FALSE(check_stays_here("::ffff:8.8.8.8", "8.0.0.0/8"));
  EXPECT_FALSE(is_loopback("2001:db8::1"));
  EXPECT_FALSE(is_address_of_this_host("2001:db8::1"));  // RFC 3849: no host has it
  EXPECT_EQ(*resolve("2001:db8::1"), "2001:db8::1");
}

TEST(Addresses, SomeMeanAllOfAHost) {
  for (const char* all : {"0.0.0.0", "::"}) EXPECT_TRUE(is_every_address(all)) << all;
  for (const char* one : {"127.0.0.1", "::1", "", "paris"})
    EXPECT_FALSE(is_every_address(one)) << one;
}

TEST(Ports, AreOneOrARange) {
  EXPECT_EQ(*parse_ports("29520-29529"), (PortRange{29520, 29529}));
  EXPECT_EQ(*parse_ports("29520"), (PortRange{29520, 29520}));
  for (const char* wrong : {"", "-", "0-5", "9-8", "1-65536", "1-2-3", "a-b", "5-"}) {
    EXPECT_FALSE(parse_ports(wrong)) << wrong;
  }
}

TEST(Addresses, IslandsAddTheirOwnNetworkAndNothingElse) {
  const std::string network = "10.77.0.0/16";
  EXPECT_TRUE(check_stays_here("127.0.0.1", network));
  EXPECT_TRUE(check_stays_here("10.77.0.1", network));
  EXPECT_TRUE(check_stays_here("10.77.255.255", network));
  EXPECT_FALSE(check_stays_here("10.76.255.255", network));
  EXPECT_FALSE(check_stays_here("10.78.0.0", network));
  EXPECT_TRUE(check_stays_here("192.168.3.130", "192.168.3.128/25"));
  EXPECT_FALSE(check_stays_here("192.168.3.127", "192.168.3.128/25"));
}

// Otherwise a variable of the environment could lift the rule.
TEST(Addresses, ANetworkThatIsNotForPrivateUseIsRefused) {
  for (const char* network : {"0.0.0.0/0", "8.8.8.0/24", "10.0.0.0/7", "172.0.0.0/8"}) {
    EXPECT_THAT(check_stays_here("8.8.8.8", network).error().text(), HasSubstr("private use"))
        << network;
  }
  for (const char* network : {"10.77.0.0", "10.77.0.0/33", "10.77.0.0/", "10.77/16", "x/8"}) {
    EXPECT_THAT(check_stays_here("10.77.0.1", network).error().text(),
                HasSubstr("is not a network"))
        << network;
  }
}

TEST(Addresses, LoopbackBelongsToThisHostAndADocumentationAddressDoesNot) {
  EXPECT_TRUE(is_address_of_this_host("127.0.0.1"));
  EXPECT_FALSE(is_address_of_this_host("192.0.2.1"));  // RFC 5737: no host has it
  EXPECT_FALSE(is_address_of_this_host("nowhere"));
}

TEST(Addresses, SomebodyTakesConnectionsThereOrNobodyDoes) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const Address there{"127.0.0.1", ntohs(at.sin_port)};
  EXPECT_FALSE(takes_connections(there, {60'000'000'000})) << "bound, but nobody listens";
  ASSERT_EQ(listen(listener, 1), 0);
  EXPECT_TRUE(takes_connections(there, {60'000'000'000}));
  close(listener);
  EXPECT_FALSE(takes_connections({"paris", 4711}, {60'000'000'000})) << "a name is no address";
}

TEST(AddressesDeathTest, PatienceHasAnEnd) {
  EXPECT_DEATH(takes_connections({"127.0.0.1", 1}, {-1}), "a patience of -1 ns");
  EXPECT_DEATH(takes_connections({"127.0.0.1", 1}, {INT64_MAX}),
               "a patience of 9223372036854775807");
}

}  // namespace
}  // namespace tombolo::transport
