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

}  // namespace
}  // namespace hetsynth
