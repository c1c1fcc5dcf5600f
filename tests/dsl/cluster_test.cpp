// Cluster files: what a good one gives, and one message per way to get it wrong.
#include "dsl/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "tests/support/refused_cluster.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Lines 1 to 9 of a correct file; tests replace one text by another.
const std::string good = R"(name = "two"
[[host]]
name = "box"
inside = { bandwidth = "8 GB/s", latency = "20 us" }
[[host.device]]
name = "core"
kind = "cpu"
count = 2
memory = "2 GiB"
declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";

std::string replaced(const std::string& from, const std::string& to) {
  const size_t at = good.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return good.substr(0, at) + to + good.substr(at + from.size());
}

TEST(Cluster, ReadsDevicesAndUnits) {
  const Cluster cluster = parse_cluster(good, "c.toml");
  EXPECT_EQ(cluster.name, "two");
  ASSERT_EQ(cluster.hosts.size(), 1u);
  EXPECT_EQ(cluster.hosts[0].inside.bandwidth_bytes_per_second, 8e9);
  EXPECT_EQ(cluster.hosts[0].inside.latency_seconds, 20e-6);
  ASSERT_EQ(cluster.devices.size(), 2u);
  EXPECT_EQ(cluster.devices[1].name, "core[1]");
  EXPECT_EQ(cluster.devices[1].index, 1);
  EXPECT_EQ(cluster.devices[1].memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(cluster.devices[1].matmul_flops_per_second(), 60e9);
  EXPECT_EQ(cluster.devices[1].memory_bytes_per_second(), 10e9);
  EXPECT_TRUE(cluster.same_type(0, 1));
}

TEST(Cluster, BitsAndBytesDiffer) {
  EXPECT_EQ(parse_cluster(replaced("8 GB/s", "10 Gb/s"), "c").hosts[0].inside.bandwidth_bytes_per_second, 1.25e9);
  EXPECT_EQ(parse_cluster(replaced("\"8 GB/s\"", "2.5e9"), "c").hosts[0].inside.bandwidth_bytes_per_second, 2.5e9);
  EXPECT_EQ(parse_cluster(replaced("2 GiB", "2GB"), "c").devices[0].memory_bytes, 2000000000);
  EXPECT_EQ(parse_cluster(replaced("20 us", "20 \u00b5s"), "c").hosts[0].inside.latency_seconds, 20e-6);
}

TEST(Cluster, MeasuredWinsOverDeclaredAndDutyScales) {
  const Cluster cluster =
      parse_cluster(replaced("count = 2", "count = 2\nduty = 0.5\nmeasured = { matmul = \"80 GFLOP/s\" }"), "c.toml");
  const Device& device = cluster.devices[0];
  EXPECT_EQ(*device.declared.matmul_flops_per_second, 60e9);
  EXPECT_EQ(*device.measured.matmul_flops_per_second, 80e9);
  EXPECT_EQ(device.matmul_flops_per_second(), 40e9);
  EXPECT_EQ(device.memory_bytes_per_second(), 5e9);
}

TEST(Cluster, ACpuDeviceStandsForItsPartOfTheCoresOrForWhatTheFileSays) {
  const Cluster cluster = parse_cluster(
      "between = { bandwidth = \"1 Gb/s\", latency = \"50 us\" }\n"
      "[[host]]\ninside = { bandwidth = \"5 GB/s\", latency = \"20 us\" }\n"
      "[[host.device]]\nmodel = \"core\"\nmemory = \"1 GiB\"\ncount = 2\n"
      "[[host.device]]\nmodel = \"core\"\nmemory = \"1 GiB\"\ncores = 3\n"
      "[[host.device]]\nmodel = \"V100\"\n"
      "[[host]]\n[[host.device]]\nmodel = \"core\"\nmemory = \"1 GiB\"\n",
      "c.toml");
  EXPECT_EQ(cores_of(cluster.devices[0], 16), 5) << "a third: the GPU is no cpu device";
  EXPECT_EQ(cores_of(cluster.devices[0], 2), 1);
  EXPECT_EQ(cores_of(cluster.devices[2], 16), 3);
  EXPECT_EQ(cores_of(cluster.devices[4], 16), 16) << "alone on its host";
  EXPECT_EQ(cores_of(local_cluster(4).devices[0], 8), 2);
}

TEST(Cluster, EpiloguesAreMeasuredOrDeclaredOrEstimated) {
  const auto of = [](const std::string& entries) {
    return parse_cluster("[[host]]\n[[host.device]]\nmodel = \"H200\"\n" + entries, "c.toml").devices[0].epilogues();
  };
  EXPECT_EQ(of(""), estimated_fused_products());
  EXPECT_FALSE(of("").count({ProductEpilogue::bias, DType::bf16}));
  EXPECT_EQ(of("declared = { epilogues = [] }"), FusedProducts{});
  const FusedProducts two = {{ProductEpilogue::bias_gelu_kept, DType::f32}, {ProductEpilogue::bias, DType::bf16}};
  EXPECT_EQ(of("declared = { epilogues = [] }\nmeasured = { epilogues = [\"bf16 bias\", \"bias_gelu_kept\"] }"), two);
  EXPECT_EQ(of("declared = { epilogues = [\"fp16 bias\"] }"), (FusedProducts{{ProductEpilogue::bias, DType::fp16}}));
}

TEST(Cluster, EpiloguesAreNamesOfSome) {
  const std::string entry = "[[host]]\n[[host.device]]\nmodel = \"H200\"\nmeasured = { epilogues = ";
  EXPECT_THAT(refusal(entry + "[\"bias_gelo\"] }"),
              AllOf(StartsWith("c.toml:4:"), HasSubstr("unknown epilogue of a product \"bias_gelo\""),
                    HasSubstr("did you mean \"bias_gelu\"?")));
  EXPECT_THAT(refusal(entry + "\"bias\" }"),
              AllOf(HasSubstr("epilogues has the wrong type"), HasSubstr("an array of strings")));
  EXPECT_THAT(refusal(entry + "[1] }"), HasSubstr("an array of strings"));
}

TEST(Cluster, AttentionIsByGeneratedKernelsUnlessSaid) {
  const std::string entry = "[[host]]\n[[host.device]]\nmodel = \"H200\"\n";
  const auto of = [&](const std::string& entries) {
    return parse_cluster(entry + entries, "c.toml").devices[0].attention();
  };
  EXPECT_EQ(of(""), AttentionBy::generated);
  EXPECT_EQ(of("declared = { attention = \"cudnn\" }"), AttentionBy::cudnn);
  EXPECT_EQ(of("declared = { attention = \"cudnn\" }\nmeasured = { attention = \"generated\" }"),
            AttentionBy::generated);
  EXPECT_THAT(refusal(entry + "declared = { attention = \"cuDNN\" }"),
              AllOf(StartsWith("c.toml:4:"), HasSubstr("attention is not computed by \"cuDNN\""),
                    HasSubstr("did you mean \"cudnn\"?")));
}

TEST(Cluster, MeasuredLinkWinsOverDeclared) {
  const Cluster cluster =
      parse_cluster(replaced("latency = \"20 us\"", "latency = \"20 us\", measured = { latency = \"30 us\" }"), "c");
  EXPECT_EQ(cluster.hosts[0].inside.latency_seconds, 30e-6);
  EXPECT_EQ(cluster.hosts[0].inside.bandwidth_bytes_per_second, 8e9);
}

TEST(Cluster, DevicesWithoutNamesAreNumberedApart) {
  const Cluster cluster = parse_cluster(
      "[[host]]\ncount = 2\ninside = { bandwidth = \"1 GB/s\", latency = \"1 us\" }\n[[host.device]]\nmodel = "
      "\"A100\"\ncount = 2\n"
      "[[host.device]]\nmodel = \"V100\"\n[[host.device]]\nmodel = \"T4\"\ncount = 2\n[between]\nbandwidth = \"1 "
      "GB/s\"\nlatency = \"9 us\"\n",
      "c.toml");
  std::vector<std::string> names;
  for (int i = 5; i < 10; ++i) names.push_back(cluster.devices.at(size_t(i)).name);
  EXPECT_EQ(names, (std::vector<std::string>{"host0[1].gpu[0]", "host0[1].gpu[1]", "host0[1].gpu2", "host0[1].gpu3[0]",
                                             "host0[1].gpu3[1]"}));
}

TEST(Cluster, SpeedsOfOperatorClassesDefaultToThatOfProductsAndShareTheDuty) {
  const Cluster cluster = parse_cluster(
      "[[host]]\n[[host.device]]\nkind = \"cpu\"\nmemory = \"1 GiB\"\nduty = 0.5\n"
      "declared = { matmul = \"60 GFLOP/s\", memory_bandwidth = \"10 GB/s\", loop = \"8 GFLOP/s\", loop_call = \"1 "
      "us\" }\n"
      "measured = { loop = \"4 GFLOP/s\", matmul_call = \"3 us\" }\n",
      "c.toml");
  const Device& device = cluster.devices[0];
  EXPECT_EQ(device.compute_speed(OperatorClass::matmul), (ComputeSpeed{30e9, 6e-6}));
  EXPECT_EQ(device.compute_speed(OperatorClass::convolution), (ComputeSpeed{30e9, 0}));
  EXPECT_EQ(device.compute_speed(OperatorClass::loop), (ComputeSpeed{2e9, 2e-6}));
}

TEST(Cluster, SpeedsByTypeAreDeclaredAndMeasuredAsOthersAre) {
  const std::string entry =
      "[[host]]\n[[host.device]]\nkind = \"cuda\"\narchitecture = \"sm_80\"\nmemory = \"8 GiB\"\n"
      "declared = { matmul = \"10 TFLOP/s\", memory_bandwidth = \"1 TB/s\"";
  const auto of = [&](const std::string& rest) { return parse_cluster(entry + rest, "c.toml"); };
  const Cluster plain = of(" }\n");
  std::set<std::string> hashes{hash_text(plain)};
  for (const auto& [key, operators] :
       {std::pair("matmul_bf16", OperatorClass::matmul_bf16), {"matmul_fp16", OperatorClass::matmul_fp16}}) {
    const auto speed = [&](const Cluster& cluster) {
      return cluster.devices[0].compute_speed(operators).flops_per_second;
    };
    const std::string at = std::string(", ") + key + " = ";
    const Cluster fast = of(at + "\"90 TFLOP/s\" }\n");
    EXPECT_EQ(speed(plain), 10e12) << "that of float32 where nothing is said";
    EXPECT_EQ(speed(fast), 90e12);
    EXPECT_EQ(speed(of(at + "\"90 TFLOP/s\" }\nmeasured = { " + key + " = \"70 TFLOP/s\" }\n")), 70e12);
    EXPECT_TRUE(hashes.insert(hash_text(fast)).second);
    EXPECT_EQ(hash_text(plain), hash_text(of(at + "\"10 TFLOP/s\" }\n")));
  }
  // Planning does not read it: no product is of TF32.
  const Cluster others = of(", matmul_tf32 = \"50 TFLOP/s\" }\n");
  EXPECT_EQ(*others.devices[0].declared.matmul_tf32_flops_per_second, 50e12);
  EXPECT_EQ(hash_text(plain), hash_text(others));
}

TEST(Cluster, HostsAndDevicesReplicate) {
  const Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml");
  ASSERT_EQ(cluster.hosts.size(), 8u);
  ASSERT_EQ(cluster.devices.size(), 64u);
  EXPECT_EQ(cluster.devices[11].name, "v100-host[1].gpu[3]");
  EXPECT_EQ(cluster.devices[11].host, 1);
  EXPECT_EQ(cluster.devices[11].index, 3);
  EXPECT_EQ(cluster.devices[16].architecture, "sm_60");
  EXPECT_TRUE(cluster.same_type(0, 15));
  EXPECT_FALSE(cluster.same_type(15, 16));
  EXPECT_NEAR(cluster.devices[0].matmul_flops_per_second() / cluster.devices[63].matmul_flops_per_second(), 1.8, 1e-12);
  EXPECT_EQ(cluster.slowest_link().bandwidth_bytes_per_second, 1.25e9);
  EXPECT_EQ(cluster.slowest_link().latency_seconds, 50e-6);
}

TEST(Cluster, EveryExampleLoads) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HETSYNTH_SOURCE_DIR "/examples/clusters")) {
    EXPECT_FALSE(load_cluster(entry.path()).devices.empty()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 6);
  const Cluster mixed = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/mixed-five.toml");
  ASSERT_EQ(mixed.devices.size(), 5u);
  EXPECT_FALSE(mixed.same_type(0, 2));
  EXPECT_FALSE(mixed.same_type(2, 4));
}

TEST(Cluster, AHostOfOneDeviceHasNoLinkThatLimits) {
  const Cluster mixed = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/mixed-five.toml");
  EXPECT_TRUE(std::isinf(mixed.hosts[2].inside.bandwidth_bytes_per_second));
  EXPECT_EQ(mixed.slowest_link().bandwidth_bytes_per_second, 25e9 / 8);
  const Cluster lone = parse_cluster("[[host]]\n[[host.device]]\nmodel = \"T4\"\n", "c.toml");
  EXPECT_TRUE(std::isinf(lone.slowest_link().bandwidth_bytes_per_second));
  EXPECT_EQ(lone.slowest_link().latency_seconds, 0);
}

TEST(Cluster, LocalClusterSharesTheMachine) {
  const Cluster one = local_cluster(1), many = local_cluster(1000);
  ASSERT_EQ(many.devices.size(), 1000u);
  EXPECT_GT(many.devices[999].memory_bytes, 0);
  EXPECT_LE(many.devices[0].memory_bytes * 1000, one.devices[0].memory_bytes + (int64_t{1000} << 20));
  EXPECT_LT(many.devices[0].matmul_flops_per_second(), one.devices[0].matmul_flops_per_second());
  EXPECT_GT(one.slowest_link().bandwidth_bytes_per_second, 0);
  EXPECT_THROW(local_cluster(0), UserError);
  EXPECT_THROW(local_cluster(65537), UserError);
}

TEST(Cluster, HashFollowsWhatPlanningReads) {
  const std::string hash = hash_text(parse_cluster(good, "c.toml"));
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, hash_text(parse_cluster("# a comment\n" + replaced("\"two\"", "\"other\""), "elsewhere.toml")));
  EXPECT_EQ(hash, hash_text(parse_cluster(replaced("\"2 GiB\"", "2147483648"), "c.toml")));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"2 GiB", "3 GiB"},
                                                        {"count = 2", "count = 3"},
                                                        {"\"core\"", "\"cpu\""},
                                                        {"60 GFLOP/s", "61 GFLOP/s"},
                                                        {"10 GB/s", "11 GB/s"},
                                                        {"20 us", "21 us"},
                                                        {"10 GB/s\"", "10 GB/s\", loop = \"1 GFLOP/s\""},
                                                        {"10 GB/s\"", "10 GB/s\", matmul_call = \"1 us\""},
                                                        {"8 GB/s", "9 GB/s"},
                                                        {"count = 2", "count = 2\nduty = 0.5"}})
    EXPECT_NE(hash, hash_text(parse_cluster(replaced(from, to), "c.toml"))) << to;
}

struct WrongFile {
  std::string name, from, to;
  std::vector<std::string> message;  ///< parts that the message must have, the place first
};

class WrongCluster : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongCluster, IsRefusedWithItsPlace) {
  const std::string message = refusal(replaced(GetParam().from, GetParam().to));
  ASSERT_FALSE(message.empty()) << "was taken";
  EXPECT_THAT(message, StartsWith(GetParam().message[0]));
  for (const std::string& part : GetParam().message) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongCluster,
    ::testing::ValuesIn(std::vector<WrongFile>{
        {"UnknownKey",
         "bandwidth =",
         "bandwdith =",
         {"c.toml:4:12: error: [host[0].inside] unknown key \"bandwdith\"", "did you mean \"bandwidth\"?"}},
        {"UnknownRootKey",
         "name = \"two\"",
         "nodes = 3",
         {"c.toml:1:1: error: [cluster] unknown key \"nodes\"", "expected: \"name\", \"host\", \"between\""}},
        {"OfTwoUnknownKeysTheFirst",
         "name = \"two\"",
         "nodes = 3\nmodes = 4",
         {"c.toml:1:1: error: [cluster] unknown key \"nodes\""}},
        {"UnknownDeviceKey",
         "memory =",
         "memroy =",
         {"c.toml:9:1: error: [host[0].device[0]] unknown key \"memroy\"", "did you mean \"memory\"?"}},
        {"NegativeBandwidth", "\"8 GB/s\"", "-1", {"c.toml:4:24: error: [host[0].inside] bandwidth is negative"}},
        {"NegativeText", "8 GB/s", "-8 GB/s", {"c.toml:4:24: error: [host[0].inside] bandwidth: it is negative"}},
        {"ZeroBandwidth", "\"8 GB/s\"", "0", {"c.toml:4:24", "bandwidth is zero"}},
        {"ZeroMemory", "2 GiB", "0 GiB", {"c.toml:9:10", "memory is zero"}},
        {"MemoryWithoutUnit",
         "\"2 GiB\"",
         "16",
         {"c.toml:9:10", "memory is out of range", "write the unit: \"16 GiB\""}},
        {"AbsurdMemory", "2 GiB", "9000 TB", {"c.toml:9:10", "memory is out of range", "expected: 64 KiB to"}},
        {"UnknownUnit", "2 GiB", "2 GIB", {"c.toml:9:10", "memory: unknown unit \"GIB\"", "did you mean \"GiB\"?"}},
        {"MissingUnit", "2 GiB", "2", {"c.toml:9:10", "memory: the unit is missing", "write it like \"16 GiB\""}},
        {"TextAfterUnit", "2 GiB", "2 GiB or so", {"c.toml:9:10", "memory: unknown unit \"GiB or so\""}},
        {"NoNumber",
         "2 GiB",
         "plenty",
         {"c.toml:9:10", "memory: it does not begin with a number", "found:    \"plenty\""}},
        {"HugeNumber", "2 GiB", "1e400 GiB", {"c.toml:9:10", "memory: the number is out of range"}},
        {"NotANumber", "\"20 us\"", "nan", {"c.toml:4:44", "latency is not a finite number"}},
        {"Infinity", "\"8 GB/s\"", "inf", {"c.toml:4:24", "bandwidth is not a finite number"}},
        {"InfinityAsText", "8 GB/s", "inf GB/s", {"c.toml:4:24", "bandwidth: it does not begin with a number"}},
        {"LatencyOfMinutes", "20 us", "20 s", {"c.toml:4:44", "latency is out of range", "expected: 0 ns to 10 s"}},
        {"WrongTypeOfName",
         "\"two\"",
         "2",
         {"c.toml:1:8: error: [cluster] name has the wrong type", "expected: a string", "found:    an integer"}},
        {"WrongTypeOfMemory",
         "\"2 GiB\"",
         "true",
         {"c.toml:9:10", "memory has the wrong type", "found:    true or false"}},
        {"WrongTypeOfCount",
         "count = 2",
         "count = 2.5",
         {"c.toml:8:9", "count has the wrong type", "expected: an integer"}},
        {"WrongTypeOfLink",
         "inside = { bandwidth = \"8 GB/s\", latency = \"20 us\" }",
         "inside = \"fast\"",
         {"c.toml:4:10", "inside has the wrong type", "expected: a table"}},
        {"DeviceIsNoArray",
         "[[host.device]]",
         "[host.device]",
         {"c.toml:5:1", "device has the wrong type", "[[host.device]]"}},
        {"ZeroCount", "count = 2", "count = 0", {"c.toml:8:9", "count is out of range", "expected: 1 to 65536"}},
        {"HugeCount", "count = 2", "count = 9223372036854775807", {"c.toml:8:9", "count is out of range"}},
        {"UnknownKind",
         "\"cpu\"",
         "\"gpu\"",
         {"c.toml:7:8", "unknown kind of device \"gpu\"", "expected: \"cpu\" or \"cuda\""}},
        {"MissingKind", "kind = \"cpu\"", "", {"c.toml:5:1", "the device has no kind"}},
        {"MissingKindOfAnUnknownModel",
         "kind = \"cpu\"",
         "model = \"A101\"",
         {"c.toml:5:1", "the device has no kind", "did you mean \"A100\"?"}},
        {"MissingMemory",
         "memory = \"2 GiB\"",
         "",
         {"c.toml:5:1", "the device has no memory", "expected: memory = \"16 GiB\""}},
        {"MissingSpeed", "matmul = \"60 GFLOP/s\", ", "", {"c.toml:5:1", "the device has no speed of matrix products"}},
        {"MistypedModel",
         "kind = \"cpu\"\ncount = 2\nmemory = \"2 GiB\"",
         "kind = \"cuda\"\narchitecture = \"sm_80\"\nmodel = \"A1000\"",
         {"c.toml:5:1", "the device has no memory", "did you mean \"A100\"?"}},
        {"NoArchitecture", "\"cpu\"", "\"cuda\"", {"c.toml:5:1", "the architecture of the cuda device is not known"}},
        {"OddArchitecture",
         "\"cpu\"",
         "\"cuda\"\narchitecture = \"volta\"",
         {"c.toml:8:16", "not an architecture", "found:    \"volta\""}},
        {"ArchitectureOfCpu",
         "\"cpu\"",
         "\"cpu\"\narchitecture = \"sm_80\"",
         {"c.toml:8:16", "a cpu device has no architecture"}},
        {"MessagesOfAGpu",
         "\"cpu\"",
         "\"cuda\"\narchitecture = \"sm_80\"\nmeasured = { messages = \"1 GB/s\" }",
         {"c.toml:9:12", "messages cost a cuda device no computing", "leave `messages` out"}},
        {"MessagesOfNoSpeed",
         "\"cpu\"",
         "\"cpu\"\nmeasured = { messages = \"0 B/s\" }",
         {"c.toml:8:25", "messages is zero", "found:    0 B/s"}},
        {"KindAgainstModel",
         "kind = \"cpu\"",
         "kind = \"cpu\"\nmodel = \"V100\"",
         {"c.toml:7:8", "a V100 is not of kind \"cpu\""}},
        {"DutyAboveOne", "count = 2", "duty = 1.5", {"c.toml:8:8", "duty is out of range"}},
        {"DutyZero", "count = 2", "duty = 0", {"c.toml:8:8", "duty is out of range"}},
        {"DutyOfGpu",
         "\"cpu\"",
         "\"cuda\"\nmodel = \"V100\"\nduty = 0.5",
         {"c.toml:9:8", "only a cpu device can have a duty below 1"}},
        {"NoCores", "count = 2", "cores = 0", {"c.toml:8:9", "cores is out of range"}},
        {"PartOfACore", "count = 2", "cores = 1.5", {"c.toml:8:9", "the number of cores is no whole number"}},
        {"CoresOfGpu",
         "\"cpu\"",
         "\"cuda\"\nmodel = \"V100\"\ncores = 2",
         {"c.toml:9:9", "only a cpu device has cores"}},
        {"NoLinkInside", "inside = {", "#", {"c.toml:2:1", "host \"box\" has 2 devices but no link inside"}},
        {"LinkWithoutLatency", ", latency = \"20 us\"", "", {"c.toml:4:10", "the link has no latency"}},
        {"SyntaxError", "count = 2", "count = = 2", {"c.toml:8:", "not valid TOML"}},
        {"UnclosedString", "\"core\"", "\"core", {"c.toml:6:", "not valid TOML"}},
        {"BadUtf8", "\"core\"", "\"\xff\xfe\"", {"c.toml:6:", "not valid TOML"}},
        {"EmptyName", "\"core\"", "\"\"", {"c.toml:6:8", "name is not a usable text"}},
        {"ControlCharacterInName",
         "\"core\"",
         "\"a\\nb\"",
         {"c.toml:6:8", "name is not a usable text", "found:    \"a?b\""}},
        {"TwiceTheSameKey", "count = 2", "count = 2\ncount = 3", {"c.toml:9:", "not valid TOML"}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(Cluster, WithoutDevicesIsRefused) {
  EXPECT_THAT(refusal(""), StartsWith("c.toml: error: [cluster] the cluster has no device"));
  EXPECT_THAT(refusal("[[host]]\nname = \"a\"\n"), StartsWith("c.toml:1:1: error: [host[0]] host \"a\" has no device"));
}

TEST(Cluster, NamesAreUnique) {
  const std::string device = "[[host.device]]\nname = \"d\"\nmodel = \"T4\"\n";
  EXPECT_THAT(refusal("[[host]]\n" + device + device),
              AllOf(StartsWith("c.toml:6:8: error: [host[0].device[1]] there are two devices with the name \"d\""),
                    EndsWith("give each a name of its own")));
  EXPECT_THAT(refusal("[[host]]\nname = \"a\"\n" + device + "[[host]]\nname = \"a\"\n" + device),
              StartsWith("c.toml:7:8: error: [host[1]] there are two hosts with the name \"a\""));
}

TEST(Cluster, CountsMultiplyWithinTheLimit) {
  const std::string text =
      "[between]\nbandwidth = 1e9\nlatency = 0\n[[host]]\ncount = 300\ninside = { bandwidth = 1e9, latency = 0 "
      "}\n[[host.device]]\nmodel = \"T4\"\ncount = ";
  EXPECT_THAT(refusal(text + "300\n"),
              StartsWith("c.toml:7:1: error: [host[0].device[0]] the cluster has too many devices"));
  EXPECT_EQ(parse_cluster(text + "200\n", "c").devices.size(), 60000u);
}

TEST(Cluster, HostileNestingIsRefused) {
  EXPECT_THAT(refusal("x = " + std::string(100000, '[')), HasSubstr("not valid TOML"));
  std::string dotted = "a";
  for (int i = 0; i < 100000; ++i) dotted += ".a";
  EXPECT_THAT(refusal(dotted + " = 1"), StartsWith("c.toml:1: error: [cluster] more than 64 dots in one line"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, '#')), HasSubstr("longer than 1048576 bytes"));
  // The deepest that both bounds let through: values in values, each behind a dotted key.
  std::string deep = "x = ";
  for (int i = 0; i < 120; ++i)
    deep += "[\n{ a" + std::string(".a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a") + " = ";
  EXPECT_NE(refusal(deep), "");
}

TEST(Cluster, MissingFileIsNamed) {
  try {
    load_cluster("/nonexistent/c.toml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "/nonexistent/c.toml: error: cannot read the cluster file: No such file or directory\n  to mend:  "
                 "check the path");
  }
  EXPECT_THROW(load_cluster("/tmp"), UserError);
}

}  // namespace
}  // namespace hetsynth
