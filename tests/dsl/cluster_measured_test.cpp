// Measured values written into a cluster file: read back they count, and nothing else of the file changes.
#include "dsl/cluster/cluster_measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

const std::string file = R"(# two boxes
name = "pair"   # a remark
[between]
bandwidth = "10 Gb/s"
latency = "50 us"

[[host]]
name = "a"
inside = { bandwidth = "5 GB/s", latency = "20 us" } # inside
  [[host.device]]
  kind = "cpu"
  count = 2
  memory = "2 GiB"
  declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }
  [[host.device]]
  name = "slow"
  measured = { matmul = "1 GFLOP/s" }  # last year
  kind = "cpu"
  duty = 0.5
  memory = "2 GiB"
  declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }

[[host]]
  [[host.device]]
  kind = "cpu"
  memory = "1 GiB"
  declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";

TEST(ClusterMeasured, CountsWhenReadBackAndLeavesTheRest) {
  const std::string text = with_measured(file, "c.toml", {"a", {42e9, 8.5e9}, Link{3e9, 7e-6}});
  const Cluster before = parse_cluster(file, "c.toml"), after = parse_cluster(text, "c.toml");
  ASSERT_EQ(after.devices.size(), 4u);
  for (int i : {0, 1, 2}) {
    EXPECT_DOUBLE_EQ(*after.devices[i].measured.matmul_flops_per_second, 42e9);
    EXPECT_DOUBLE_EQ(*after.devices[i].measured.memory_bytes_per_second, 8.5e9);
    EXPECT_EQ(after.devices[i].declared.matmul_flops_per_second, before.devices[i].declared.matmul_flops_per_second);
  }
  EXPECT_DOUBLE_EQ(after.devices[2].matmul_flops_per_second(), 21e9);  // half of its time
  EXPECT_FALSE(after.devices[3].measured.matmul_flops_per_second);
  EXPECT_DOUBLE_EQ(after.hosts[0].inside.bandwidth_bytes_per_second, 3e9);
  EXPECT_DOUBLE_EQ(after.hosts[0].inside.latency_seconds, 7e-6);
  for (const char* remark : {"# two boxes", "# a remark", "# inside", "# last year"})
    EXPECT_THAT(text, HasSubstr(remark));
}

TEST(ClusterMeasured, LinksOfHostsToOthersAreWrittenAndWrittenAnew) {
  const Link link{0.11e9, 61e-6}, other{0.2e9, 50e-6};
  const auto written = [](const std::string& text, const std::string& host, const Link& outside) {
    MeasuredHost measured;
    measured.name = host;
    measured.outside = outside;
    return with_measured(text, "c.toml", measured);
  };
  std::string text = file;
  for (const char* host : {"a", "host1"}) {
    text = written(text, host, link);
    const int number = host[0] == 'a' ? 0 : 1;
    EXPECT_EQ(parse_cluster(text, "c.toml").outside(number), link) << text;
    EXPECT_EQ(parse_cluster(written(text, host, other), "c.toml").outside(number), other) << text;
  }
  // Beside what its author declared.
  std::string declared = file;
  const std::string name = "name = \"a\"\n";
  declared.insert(declared.find(name) + name.size(), "outside = { sending = \"1 Mb/s\" }  # far\n");
  text = written(declared, "a", link);
  EXPECT_EQ(parse_cluster(text, "c.toml").outside(0), link) << text;
  for (const char* kept : {"outside = { sending = \"1 Mb/s\", measured", "# far", "# a remark"})
    EXPECT_THAT(text, HasSubstr(kept));
}

TEST(ClusterMeasured, ALinkOfDottedKeysIsRefusedAndQuotedKeysAreWritten) {
  const std::string name = "name = \"a\"\n";
  MeasuredHost measured;
  measured.name = "a";
  measured.outside = Link{0.11e9, 61e-6};
  const auto with = [&](const std::string& own) {
    std::string text = file;
    return text.insert(text.find(name) + name.size(), own);
  };
  try {
    with_measured(with("outside.bandwidth = \"1 Gb/s\"\noutside.latency = \"20 us\"\n"), "c.toml", measured);
    FAIL() << "written";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.toml:9:1: error: [cluster] measured values cannot be written into this"));
    EXPECT_THAT(error.what(), HasSubstr("outside = { ... } in one line"));
  }
  const std::string text =
      with_measured(with("outside = { \"measured\" = { latency = \"1 us\" } }\n"), "c.toml", measured);
  EXPECT_EQ(parse_cluster(text, "c.toml").outside(0), *measured.outside) << text;
}

TEST(ClusterMeasured, LinksBetweenHostsAreWrittenInTablesOfBothForms) {
  const auto expect_read = [](const std::string& before, const std::string& text) {
    const Cluster after = parse_cluster(text, "c.toml");
    EXPECT_DOUBLE_EQ(after.between.bandwidth_bytes_per_second, 0.11e9) << text;
    EXPECT_DOUBLE_EQ(after.between.latency_seconds, 61e-6) << text;
    EXPECT_EQ(after.devices.size(), parse_cluster(before, "c.toml").devices.size());
  };
  const Link link{0.11e9, 61e-6};
  std::string text = with_measured_between(file, "c.toml", link);
  expect_read(file, text);
  EXPECT_EQ(with_measured_between(text, "c.toml", link), text) << "measured anew, it takes the place of what was there";
  std::string in_line = file;
  const std::string table = "[between]\nbandwidth = \"10 Gb/s\"\nlatency = \"50 us\"\n";
  in_line.replace(in_line.find(table), table.size(), "between = { bandwidth = \"10 Gb/s\", latency = \"50 us\" }\n");
  expect_read(in_line, with_measured_between(in_line, "c.toml", link));
  // At the end of a file without a last line break.
  std::string last = file;
  last.erase(last.find(table), table.size());
  last += table.substr(0, table.size() - 1);
  expect_read(last, with_measured_between(last, "c.toml", link));
}

TEST(ClusterMeasured, WhatAddsLeavesOtherValues) {
  DeviceSpeed messages;
  messages.message_bytes_per_second = 0.8e9;
  const std::string text = with_measured(file, "c.toml", {.name = "a", .device = messages, .inside = {}, .adds = true});
  const Cluster after = parse_cluster(text, "c.toml");
  EXPECT_FALSE(after.devices[0].measured.matmul_flops_per_second);
  EXPECT_DOUBLE_EQ(*after.devices[2].measured.matmul_flops_per_second, 1e9) << "the slow one's, not the first one's";
  for (int i : {0, 1, 2}) EXPECT_DOUBLE_EQ(*after.devices[i].measured.message_bytes_per_second, 0.8e9);
  EXPECT_DOUBLE_EQ(after.devices[0].message_seconds_per_byte(), 1 / 0.8e9);
  EXPECT_DOUBLE_EQ(after.devices[2].message_seconds_per_byte(), 2 / 0.8e9) << "half of its time";
  EXPECT_EQ(after.devices[3].message_seconds_per_byte(), 0);
  EXPECT_NE(hash_text(after), hash_text(parse_cluster(file, "c.toml")));
}

TEST(ClusterMeasured, OneHostOfAnEntryWithACountStandsForIt) {
  std::string several = file;
  several.replace(several.find("name = \"a\"\n"), 11, "name = \"a\"\ncount = 3\n");
  const std::string text = with_measured(several, "c.toml", {"a[1]", {42e9, 8.5e9}, {}});
  const Cluster after = parse_cluster(text, "c.toml");
  ASSERT_EQ(after.hosts.size(), 4u);
  for (int i = 0; i < 9; ++i) EXPECT_DOUBLE_EQ(*after.devices[size_t(i)].measured.matmul_flops_per_second, 42e9);
}

TEST(ClusterMeasured, ALinkOfOneHostIsRefused) {
  const std::string one =
      "[[host]]\n[[host.device]]\nkind = \"cpu\"\nmemory = \"1 GiB\"\n"
      "declared = { matmul = \"1 GFLOP/s\", memory_bandwidth = \"1 GB/s\" }\n";
  try {
    with_measured_between(one, "c.toml", {1e9, 1e-6});
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_THAT(error.diagnostic().render(),
                testing::AllOf(HasSubstr("the cluster has no links between hosts"), HasSubstr("found:    1 host")));
  }
}

TEST(ClusterMeasured, KeepsEpilogues) {
  DeviceSpeed speed{42e9, 8.5e9};
  speed.epilogues = {{ProductEpilogue::bias_relu, DType::f32}, {ProductEpilogue::gelu_slope, DType::bf16}};
  const std::string text = with_measured(file, "c.toml", {"a", speed, {}});
  EXPECT_THAT(text, HasSubstr("epilogues = [\"bias_relu\", \"bf16 gelu_slope\"]"));
  EXPECT_EQ(parse_cluster(text, "c.toml").devices[0].measured.epilogues, speed.epilogues);
  speed.attention = AttentionBy::cudnn;
  const std::string by_cudnn = with_measured(text, "c.toml", {"a", speed, {}});
  EXPECT_THAT(by_cudnn, HasSubstr("attention = \"cudnn\""));
  EXPECT_EQ(parse_cluster(by_cudnn, "c.toml").devices[0].attention(), AttentionBy::cudnn);
  speed.attention.reset();
  speed.epilogues->clear();
  EXPECT_EQ(parse_cluster(with_measured(text, "c.toml", {"a", speed, {}}), "c.toml").devices[0].epilogues(),
            FusedProducts{});
}

TEST(ClusterMeasured, KeepsEverySpeed) {
  const DeviceSpeed speed{42e9, 8.5e9, 30e9, 2.5e9, 4e-6, 5e-6, 250e-9, 0.75e9, 21e12, 84e12, 85e12};
  const Cluster after = parse_cluster(with_measured(file, "c.toml", {"a", speed, {}}), "c.toml");
  for (const SpeedField& field : speed_fields()) {
    ASSERT_TRUE(speed.*field.value) << field.key;
    EXPECT_DOUBLE_EQ(*(after.devices[0].measured.*field.value), *(speed.*field.value)) << field.key;
  }
}

TEST(ClusterMeasured, TwiceIsTheSameAsOnce) {
  const MeasuredHost measured{"a", {42e9, 8.5e9}, Link{3e9, 7e-6}};
  const std::string once = with_measured(file, "c.toml", measured);
  EXPECT_EQ(with_measured(once, "c.toml", measured), once);
}

TEST(ClusterMeasured, AHostWithoutANameIsCalledByItsNumber) {
  const Cluster after = parse_cluster(with_measured(file, "c.toml", {"host1", {5e9, {}}, {}}), "c.toml");
  EXPECT_DOUBLE_EQ(*after.devices[3].measured.matmul_flops_per_second, 5e9);
  EXPECT_FALSE(after.devices[0].measured.matmul_flops_per_second);
}

TEST(ClusterMeasured, RefusesWhatItCannotEdit) {
  EXPECT_THROW(with_measured(file, "c.toml", {"b", {5e9, {}}, {}}), UserError);
  EXPECT_THROW(with_measured("name = 3", "c.toml", {"b", {5e9, {}}, {}}), UserError);
  const std::string inline_devices =
      "[[host]]\ndevice = [{ kind = \"cpu\", memory = \"1 GiB\", declared = { matmul = \"6 GFLOP/s\", memory_bandwidth "
      "= "
      "\"10 GB/s\" } }]\n";
  try {
    with_measured(inline_devices, "c.toml", {"host0", {5e9, {}}, {}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.toml:2:11: error: [cluster] measured values cannot be written"));
  }
}

}  // namespace
}  // namespace hetsynth
