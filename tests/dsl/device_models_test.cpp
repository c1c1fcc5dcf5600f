// Models of devices: the names under which they are found, and what a data sheet fills in.
#include "dsl/cluster/device_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/cluster/cluster.h"
#include "tests/support/refused_cluster.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DeviceModels, ModelsAreKnownUnderTheNamesThatPeopleAndToolsWrite) {
  const std::vector<std::pair<const char*, const char*>> names = {
      {"NVIDIA GeForce RTX 4090", "RTX-4090"},
      {"rtx4090", "RTX-4090"},
      {"4090", "RTX-4090"},
      {"GeForce RTX 3090 Ti", "RTX-3090-Ti"},
      {"3090ti", "RTX-3090-Ti"},
      {"3090", "RTX-3090"},
      {"NVIDIA RTX A6000", "RTX-A6000"},
      {"A6000", "RTX-A6000"},
      {"NVIDIA L40S", "L40S"},
      {"l40", "L40"},
      {"Tesla V100-SXM2-16GB", "V100"},
      {"Tesla V100-SXM2-32GB", "V100-32GB"},
      {"Tesla V100-PCIE-16GB", "V100-PCIe"},
      {"NVIDIA A100-SXM4-40GB", "A100"},
      {"NVIDIA A100-SXM4-80GB", "A100-80GB"},
      {"NVIDIA A100-PCIE-40GB", "A100-PCIe"},
      {"NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"},
      {"a100_80gb", "A100-80GB"},
      {"NVIDIA H100 80GB HBM3", "H100"},
      {"NVIDIA H100 PCIe", "H100-PCIe"},
      {"NVIDIA H200", "H200"},
      {"Tesla T4", "T4"},
      {"Tesla P100-PCIE-16GB", "P100-PCIe"},
      {"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"},
      {"NVIDIA A10", "A10"},
      {"NVIDIA A10G", "A10G"},
      {"Tesla K80", "K80"},
      {"Tesla M60", "M60"},
      {"Tesla P4", "P4"},
      {"Tesla P40", "P40"},
      {"NVIDIA GeForce GTX 1080 Ti", "GTX-1080-Ti"},
      {"1080ti", "GTX-1080-Ti"},
      {"NVIDIA GeForce GTX 1660", "GTX-1660"},
      {"NVIDIA GeForce RTX 2060", "RTX-2060"},
      {"NVIDIA GeForce RTX 2070", "RTX-2070"},
      {"NVIDIA GeForce RTX 2080", "RTX-2080"},
      {"Quadro RTX 6000", "Quadro-RTX-6000"},
      {"Quadro RTX 8000", "Quadro-RTX-8000"},
      {"NVIDIA TITAN RTX", "TITAN-RTX"},
      {"NVIDIA TITAN V", "TITAN-V"},
      {"Tesla V100S-PCIE-32GB", "V100S-PCIe"},
      {"NVIDIA RTX 2000 Ada Generation", "RTX-2000-Ada"},
      {"NVIDIA RTX 4000 Ada Generation", "RTX-4000-Ada"},
      {"NVIDIA RTX 5000 Ada Generation", "RTX-5000-Ada"},
      {"NVIDIA A2", "A2"},
      {"NVIDIA A16", "A16"},
      {"NVIDIA A800-SXM4-80GB", "A800"},
      {"NVIDIA A800 80GB PCIe", "A800-PCIe"},
      {"NVIDIA H20", "H20"},
      {"NVIDIA H800", "H800"},
      {"NVIDIA H100 NVL", "H100-NVL"},
      {"NVIDIA GH200 480GB", "GH200"},
      {"NVIDIA GH200 144G HBM3e", "GH200-144GB"},
      {"NVIDIA B100", "B100"},
      {"NVIDIA B200", "B200"},
      {"NVIDIA GB200", "GB200"},
      {"NVIDIA GeForce RTX 5060 Ti", "RTX-5060-Ti"},
      {"NVIDIA GeForce RTX 5070", "RTX-5070"},
      {"NVIDIA GeForce RTX 5070 Ti", "RTX-5070-Ti"},
      {"NVIDIA GeForce RTX 5080", "RTX-5080"},
      {"NVIDIA GeForce RTX 5090", "RTX-5090"},
      {"Tesla V100-DGXS-32GB", "V100-32GB"},
      {"A100 (80GB)", "A100-80GB"},
      {"A100/80GB", "A100-80GB"},
      {"A100 80G", "A100-80GB"},
      {"NVIDIA A100 80 GiB", "A100-80GB"},
      {"GPU 0: NVIDIA GeForce RTX 4090", "RTX-4090"},
      {"GPU 12: Tesla V100-SXM2-16GB (UUID: GPU-4b9f)", "V100"},
      {"core", "core"}};
  for (const auto& [written, model] : names) {
    const DeviceModel* found = find_device_model(written);
    ASSERT_NE(found, nullptr) << written;
    EXPECT_EQ(found->name, model) << written;
  }
  for (const DeviceModel& model : device_models()) EXPECT_EQ(find_device_model(model.name), &model);
  // Neither a part of a name nor another card.
  for (const char* other : {"", "NVIDIA", "RTX", "RTX 4090 Laptop GPU", "A1000", "V100-64GB", "L400", "Ti"})
    EXPECT_EQ(find_device_model(other), nullptr) << other;
  EXPECT_THAT(refusal("[[host]]\n[[host.device]]\nmodel = \"NVIDIA GeForce RTX 4091\"\n"),
              AllOf(HasSubstr("the model \"NVIDIA GeForce RTX 4091\" is not known, and the device has no kind"),
                    HasSubstr("or a known model, as \"RTX-4090\", \"RTX-"), Not(HasSubstr("\"K80\"")),
                    HasSubstr("did you mean \"RTX-4090\"? Or describe the device by hand: kind = \"cuda\"")));
  EXPECT_THAT(near_device_models("NVIDIA B300"), ::testing::IsSupersetOf({"B100", "B200"}));
  EXPECT_THAT(near_device_models("Gaudi 3 accelerator"), ::testing::IsEmpty());
}

/// Chips of laptops are others than the cards of their number, and never taken for them in silence.
TEST(DeviceModels, VariantsOfAModelAreRefusedBesideIt) {
  const std::vector<std::pair<const char*, const char*>> variants = {
      {"RTX 4090 Laptop GPU", "RTX-4090"},
      {"NVIDIA GeForce RTX 3060 Laptop GPU", "RTX-3060"},
      {"NVIDIA GeForce RTX 3070 Ti Laptop GPU", "RTX-3070-Ti"},
      {"4090 laptop", "RTX-4090"},
      {"RTX 2080 Super Max-Q", "RTX-2080"},
      {"GTX 1070 Mobile", "GTX-1070"},
      {"V100-64GB", "V100"},
      {"NVIDIA A100X", "A100"}};
  for (const auto& [written, model] : variants) {
    EXPECT_EQ(find_device_model(written), nullptr) << written;
    ASSERT_THAT(near_device_models(written), Not(::testing::IsEmpty())) << written;
    EXPECT_EQ(near_device_models(written).front(), model) << written;
    EXPECT_TRUE(is_variant_of(written, model)) << written;
    EXPECT_THAT(refusal(std::string("[[host]]\n[[host.device]]\nmodel = \"") + written + "\"\n"),
                AllOf(HasSubstr(std::string("or a known model, as \"") + model + "\""),
                      HasSubstr(std::string("it is another chip than a ") + model +
                                ": describe the device by hand: kind = \"cuda\""),
                      Not(HasSubstr("did you mean"))))
        << written;
  }
  EXPECT_FALSE(is_variant_of("RTX 4091", "RTX-4090"));
  EXPECT_EQ(near_device_models("RTX A2000 Mobile").front().substr(0, 5), "RTX-A");
  // A part of a card is none.
  EXPECT_TRUE(is_variant_of("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"));
  // The description by hand is that of the card it comes from.
  EXPECT_THAT(refusal("[[host]]\n[[host.device]]\nmodel = \"GTX 1070 Mobile\"\n"),
              HasSubstr("kind = \"cuda\", architecture = \"sm_61\", memory = \"7 GiB\", declared = { matmul = \"6.5 "
                        "TFLOP/s\", memory_bandwidth = \"256 GB/s\" }"));
  EXPECT_THAT(refusal("[[host]]\n[[host.device]]\nmodel = \"V100-64GB\"\n"),
              HasSubstr("architecture = \"sm_70\", memory = \"15 GiB\", declared = { matmul = \"15.7 TFLOP/s\", "
                        "matmul_fp16 = \"125 TFLOP/s\", memory_bandwidth = \"900 GB/s\" }"));
}

TEST(DeviceModels, NamesLikeNoneAreToldOneModelOfEveryGeneration) {
  for (const char* name : {"Jetson Orin", "Jetson AGX Orin 64GB", "MX450", "Gaudi 3 accelerator"})
    EXPECT_THAT(refusal(std::string("[[host]]\n[[host.device]]\nmodel = \"") + name + "\"\n"),
                AllOf(HasSubstr("\"V100\" (sm_70)"), HasSubstr("\"A100\" (sm_80)"), HasSubstr("\"L4\" (sm_89)"),
                      HasSubstr("to mend:  describe the device by hand: kind = \"cuda\", architecture")))
        << name;
}

TEST(DeviceModels, OnlyCudaDevicesAreSupported) {
  for (const char* name : {"MI300X", "AMD Instinct MI250", "mi210", "AMD Radeon RX 7900 XTX", "RX 7900 XTX"}) {
    EXPECT_TRUE(is_amd_model(name)) << name;
    EXPECT_THAT(refusal(std::string("[[host]]\n[[host.device]]\nmodel = \"") + name + "\"\n"),
                AllOf(StartsWith("c.toml:3:9"), HasSubstr(name),
                      HasSubstr("is a GPU of AMD, and only CUDA devices are supported"), HasSubstr("GPUs of NVIDIA")));
  }
  for (const DeviceModel& model : device_models()) EXPECT_FALSE(is_amd_model(model.name)) << model.name;
  EXPECT_FALSE(is_amd_model("NVIDIA GeForce RTX 4090"));
}

TEST(DeviceModels, ModelFillsInDataSheetValues) {
  const Cluster cluster = parse_cluster("[[host]]\n[[host.device]]\nmodel = \"a100-80gb\"\n", "c.toml");
  const Device& device = cluster.devices[0];
  EXPECT_EQ(device.kind, DeviceKind::cuda);
  EXPECT_EQ(device.architecture, "sm_80");
  EXPECT_NEAR(double(device.memory_bytes) / double(1 << 30), 77.9, 0.05) << "what is left of 79.2 GiB";
  EXPECT_EQ(device.memory_bytes_per_second(), 2039e9);
  EXPECT_EQ(device.name, "gpu");
  EXPECT_EQ(cluster.name, "c.toml");
}

TEST(DeviceModels, DataSheetsTellSpeedsByTypeOfOperands) {
  const Cluster cluster = parse_cluster(
      "[[host]]\ninside = { bandwidth = \"1 GB/s\", latency = \"1 us\" }\n[[host.device]]\nmodel = "
      "\"A100\"\n[[host.device]]\nmodel = \"V100\"\n[[host.device]]\nmodel = \"H100\"\n",
      "c.toml");
  const Device &a100 = cluster.devices[0], &v100 = cluster.devices[1], &h100 = cluster.devices[2];
  const auto speed = [](const Device& device, OperatorClass operators) {
    return device.compute_speed(operators).flops_per_second;
  };
  // float32 is multiplied by FMA units: nobody asked for TF32.
  EXPECT_NEAR(speed(a100, OperatorClass::matmul), 0.85 * 19.5e12, 1e3);
  EXPECT_NEAR(speed(a100, OperatorClass::matmul) / speed(v100, OperatorClass::matmul), 1.24, 0.01);
  EXPECT_NEAR(speed(h100, OperatorClass::matmul), 53.5e12, 0.1e12);
  EXPECT_NEAR(speed(a100, OperatorClass::loop), 0.85 * 19.5e12, 1e3);
  EXPECT_NEAR(speed(a100, OperatorClass::matmul_bf16), 0.75 * 312e12, 1e3);
  EXPECT_NEAR(a100.declared.matmul_tf32_flops_per_second.value(), 0.75 * 156e12, 1e3);
  EXPECT_NEAR(speed(h100, OperatorClass::matmul_bf16), 0.65 * 989e12, 1e3);
  // Tensor cores of a V100 know fp16 alone.
  EXPECT_EQ(speed(v100, OperatorClass::matmul_bf16), speed(v100, OperatorClass::matmul));
  EXPECT_FALSE(v100.declared.matmul_bf16_flops_per_second.has_value());
  EXPECT_NEAR(speed(v100, OperatorClass::matmul_fp16), 0.75 * 125e12, 1e3);
  for (OperatorClass operators : operator_classes) EXPECT_DOUBLE_EQ(a100.compute_speed(operators).call_seconds, 5e-6);
}

TEST(DeviceModels, TheTableOfModelsIsOrderly) {
  EXPECT_GE(device_models().size(), 40u);
  for (const DeviceModel& model : device_models()) {
    if (model.kind != DeviceKind::cuda) continue;
    EXPECT_EQ(model.architecture.substr(0, 3), "sm_") << model.name;
    // No card has more than it is sold with, and few keep a tenth of it back.
    EXPECT_LE(model.told_gib, model.sold_gb) << model.name;
    EXPECT_GE(model.told_gib, 0.9 * model.sold_gb) << model.name;
    EXPECT_LT(double(model.memory_bytes()), model.told_gib * double(1 << 30)) << model.name;
    EXPECT_GT(model.float32, 4) << model.name;
    // Tensor cores: of fp16 since Volta, of bf16 and TF32 since Ampere, half as fast as of bf16.
    const bool ampere = model.architecture.size() > 5 || model.architecture >= "sm_80";
    EXPECT_EQ(model.bf16 > 0, ampere) << model.name;
    EXPECT_EQ(model.tf32 > 0, ampere) << model.name;
    if (ampere) {
      EXPECT_EQ(model.fp16, model.bf16) << model.name;
      EXPECT_NEAR(model.tf32 / model.bf16, 0.5, 0.02) << model.name;
    }
    EXPECT_GE(model.bf16 == 0 ? model.float32 : model.bf16, model.float32) << model.name;
  }
}

TEST(DeviceModels, KnowsTheModelsPeopleName) {
  for (const char* name : {"V100", "P100", "A100", "T4", "H100", "H200", "3090", "RTX 4090"})
    EXPECT_NE(find_device_model(name), nullptr) << name;
  EXPECT_EQ(find_device_model("B9000"), nullptr);
}

}  // namespace
}  // namespace hetsynth
