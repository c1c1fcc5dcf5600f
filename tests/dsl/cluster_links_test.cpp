// Links between the hosts of a cluster file: that of all, and those that hosts have of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "dsl/cluster/cluster.h"
#include "tests/support/refused_cluster.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ClusterLinks, TwoHostsNeedALink) {
  const std::string device = "[[host.device]]\nmodel = \"T4\"\n";
  const std::string hosts = "[[host]]\nname = \"a\"\n" + device + "[[host]]\nname = \"b\"\n" + device;
  EXPECT_THAT(refusal(hosts), StartsWith("c.toml: error: [cluster] there is no link between hosts \"a\" and \"b\""));
  EXPECT_EQ(refusal(hosts + "[between]\nbandwidth = \"10 Gb/s\"\nlatency = \"50 us\"\n"), "");
}

/// Three hosts behind one network, of which `own` tells what the second has of its own.
std::string three_hosts(const std::string& own) {
  const std::string device = "[[host.device]]\nmodel = \"T4\"\n";
  return "[between]\nbandwidth = \"8 Gb/s\"\nlatency = \"50 us\"\n[[host]]\nname = \"a\"\n" + device +
         "[[host]]\nname = \"b\"\n" + own + device + "[[host]]\nname = \"c\"\n" + device;
}

TEST(ClusterLinks, AHostMayHaveALinkOfItsOwnToOthers) {
  const Cluster usual = parse_cluster(three_hosts(""), "c");
  EXPECT_EQ(usual.link(0, 1), (Link{1e9, 50e-6}));
  EXPECT_EQ(usual.outside(1), (Link{1e9, 50e-6}));
  EXPECT_TRUE(usual.same_links(0, 1));
  // Where the host's own link tells no value, [between] does.
  const Cluster far = parse_cluster(three_hosts("outside = { sending = \"80 Mb/s\", latency = \"2 ms\" }\n"), "c");
  EXPECT_EQ(far.link(1, 0), (Link{1e7, 2e-3}));
  EXPECT_EQ(far.link(0, 1), (Link{1e9, 2e-3}));
  EXPECT_EQ(far.link(0, 2), (Link{1e9, 50e-6}));
  EXPECT_EQ(far.outside(1), (Link{1e7, 2e-3}));
  EXPECT_EQ(far.slowest_link(), (Link{1e7, 2e-3}));
  EXPECT_FALSE(far.same_links(0, 1));
  EXPECT_TRUE(far.same_links(0, 2));
  // A bandwidth is that of both directions but where one has its own; what was measured wins, value by value.
  const Cluster measured = parse_cluster(
      three_hosts("outside = { bandwidth = 5e7, receiving = 3e7, measured = { sending = 4e7, latency = 0 } }\n"), "c");
  EXPECT_EQ(measured.link(1, 0), (Link{4e7, 50e-6}));
  EXPECT_EQ(measured.link(0, 1), (Link{3e7, 50e-6}));
  EXPECT_EQ(measured.hosts[1].outside.latency_seconds, 0.0);
  // A faster one helps nobody whom others limit.
  const Cluster near = parse_cluster(three_hosts("outside = { bandwidth = 9e9 }\n"), "c");
  EXPECT_EQ(near.link(1, 0), (Link{1e9, 50e-6}));
  std::set<std::string> hashes;
  for (const Cluster* cluster : {&usual, &far, &measured, &near}) hashes.insert(hash_text(*cluster));
  EXPECT_EQ(hashes.size(), 4u);
}

TEST(ClusterLinks, AWrongLinkToOthersIsRefusedWithItsPlace) {
  EXPECT_THAT(refusal(three_hosts("outside = {}\n")),
              AllOf(StartsWith("c.toml:10:11: error: [host[1].outside] the link to other hosts tells nothing"),
                    HasSubstr("bandwidth (or sending and receiving), or latency"),
                    HasSubstr("the host then has what [between] says")));
  EXPECT_THAT(refusal(three_hosts("outside = { bandwith = 1e9 }\n")),
              AllOf(HasSubstr("unknown key \"bandwith\""), HasSubstr("did you mean \"bandwidth\"?")));
  EXPECT_THAT(refusal(three_hosts("outside = { sending = 0 }\n")),
              HasSubstr("error: [host[1].outside] sending is zero"));
  EXPECT_THAT(refusal(three_hosts("outside = { measured = { latency = \"-1 us\" } }\n")),
              HasSubstr("error: [host[1].outside.measured] latency: it is negative"));
  EXPECT_THAT(refusal(three_hosts("outside = \"1 Gb/s\"\n")), HasSubstr("outside has the wrong type"));
}

/// Two hosts in a rack, one in another, one in none. `racks`: the tables of racks.
std::string four_hosts(const std::string& racks) {
  const auto host = [](const std::string& name, const std::string& rack) {
    return "[[host]]\nname = \"" + name + "\"\n" + (rack.empty() ? "" : "rack = \"" + rack + "\"\n") +
           "[[host.device]]\nmodel = \"T4\"\n";
  };
  return racks + "[between]\nbandwidth = \"8 Gb/s\"\nlatency = \"50 us\"\n" + host("a", "left") + host("b", "left") +
         host("c", "right") + host("d", "");
}

const std::string left = "[[rack]]\nname = \"left\"\n", right = "[[rack]]\nname = \"right\"\n";
const std::string slow = "uplink = { bandwidth = \"80 Mb/s\", latency = \"1 ms\" }\n";

TEST(ClusterLinks, RacksHaveUplinksThatTheirHostsShare) {
  const std::string one_way = "uplink = { sending = 3e7, receiving = 2e7, measured = { sending = 4e7 } }\n";
  const Cluster cluster = parse_cluster(four_hosts(left + slow + right + one_way), "c");
  EXPECT_EQ(cluster.uplink(0, 1), unlimited_link);
  EXPECT_EQ(cluster.uplink(0, 2), (Link{1e7, 1e-3}));
  EXPECT_EQ(cluster.uplink(2, 3), (Link{4e7, 0}));
  EXPECT_EQ(cluster.uplink(3, 2), (Link{2e7, 0}));
  EXPECT_EQ(cluster.uplink(3, 2, 1, 4), (Link{5e6, 0})) << "four messages enter at once";
  EXPECT_EQ(cluster.slowest_link(), (Link{1e7, 1e-3}));
  EXPECT_TRUE(cluster.same_links(0, 1));
  EXPECT_FALSE(cluster.same_links(0, 2));
  EXPECT_FALSE(cluster.same_links(0, 3));
  const Cluster other = parse_cluster(four_hosts(left + one_way + right + slow), "c");
  EXPECT_NE(hash_text(cluster), hash_text(other));
}

TEST(ClusterLinks, RacksThatAreWrongAreNamed) {
  EXPECT_THAT(refusal(four_hosts(left + slow)),
              AllOf(HasSubstr("[host[2]] there is no rack \"right\""), HasSubstr("\"left\"")));
  EXPECT_THAT(refusal(four_hosts("")), HasSubstr("a [[rack]] of this name, with its uplink"));
  EXPECT_THAT(refusal(four_hosts(left + right + slow)),
              AllOf(HasSubstr("rack \"left\" has no uplink"), HasSubstr("uplink = { bandwidth")));
  EXPECT_THAT(refusal(four_hosts(left + slow + right + "uplink = { latency = \"1 ms\" }\n")),
              HasSubstr("the uplink of rack \"right\" has no bandwidth"));
  EXPECT_THAT(refusal(four_hosts(left + slow + right + "uplink = { sending = 1e8 }\n")), HasSubstr("has no bandwidth"));
  EXPECT_THAT(refusal(four_hosts(left + slow + right + "uplink = { bandwidth = 0 }\n")),
              HasSubstr("bandwidth is zero"));
  EXPECT_THAT(refusal(four_hosts(left + slow + right + slow + left + slow)),
              HasSubstr("there are two racks with the name \"left\""));
  EXPECT_THAT(refusal(four_hosts(left + slow + right + slow + "[[rack]]\nname = \"empty\"\n" + slow)),
              HasSubstr("no host is in rack \"empty\""));
  EXPECT_THAT(refusal(four_hosts(left + "hosts = [\"a\"]\n" + slow + right + slow)), HasSubstr("hosts"));
}

}  // namespace
}  // namespace hetsynth
