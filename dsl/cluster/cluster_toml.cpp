// Cluster files: TOML to Cluster, with a message that names file and line for whatever is wrong (docs/cluster.md).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/suggest.h"
#include "dsl/base/toml_text.h"
#include "dsl/cluster/cluster.h"
#include "dsl/cluster/device_models.h"
#include "dsl/cluster/quantity.h"
#include "dsl/cluster/toml_reader.h"

namespace hetsynth {
namespace {

// Beyond these a number is a slip of the unit, not a device of this decade or the next.
constexpr ValueLimits memory_limits{64 * 1024.0, 1e15};
constexpr ValueLimits compute_limits{1e6, 1e18};
constexpr ValueLimits bandwidth_limits{1e3, 1e15};
constexpr ValueLimits time_limits{0, 10};
constexpr ValueLimits duty_limits{0.01, 1};
constexpr ValueLimits core_limits{1, 65536};

const std::vector<std::string> root_keys{"name", "host", "between", "rack"};
const std::vector<std::string> host_keys{"name", "count", "inside", "outside", "rack", "device"};
const std::vector<std::string> rack_keys{"name", "uplink"};
const std::vector<std::string> device_keys{"name",   "kind", "model", "count",    "architecture",
                                           "memory", "duty", "cores", "declared", "measured"};
constexpr std::string_view epilogues_key = "epilogues";
constexpr std::string_view attention_key = "attention";
const std::vector<std::string> speed_keys = [] {
  std::vector<std::string> keys;
  for (const SpeedField& field : speed_fields()) keys.emplace_back(field.key);
  keys.emplace_back(epilogues_key);
  keys.emplace_back(attention_key);
  return keys;
}();
const std::vector<std::string> link_keys{"bandwidth", "latency", "measured"};
const std::vector<std::string> measured_link_keys{"bandwidth", "latency"};
const std::vector<std::string> outside_keys{"bandwidth", "sending", "receiving", "latency", "measured"};
const std::vector<std::string> measured_outside_keys{"bandwidth", "sending", "receiving", "latency"};

Link read_link(const TableReader& reader) {
  const auto measured = reader.table("measured", measured_link_keys);
  const auto value = [&](std::string_view key, Dimension dimension, ValueLimits limits) {
    const std::optional<double> declared = reader.quantity(key, dimension, limits);
    const std::optional<double> found = measured ? measured->quantity(key, dimension, limits) : std::nullopt;
    if (!declared && !found)
      reader.fail(reader.where(), fmt::format("the link has no {}", key),
                  fmt::format("{} = \"{}\"", key, example(dimension)), "", "");
    return found ? *found : *declared;
  };
  Link link;
  link.bandwidth_bytes_per_second = value("bandwidth", Dimension::bandwidth, bandwidth_limits);
  link.latency_seconds = value("latency", Dimension::time, time_limits);
  return link;
}

/// A bandwidth is of both directions, unless one of them has its own.
OutsideLink read_directions(const TableReader& reader) {
  const auto read = [](const TableReader& table) {
    const std::optional<double> both = table.quantity("bandwidth", Dimension::bandwidth, bandwidth_limits);
    const auto one_way = [&](std::string_view key) {
      const std::optional<double> own = table.quantity(key, Dimension::bandwidth, bandwidth_limits);
      return own ? own : both;
    };
    return OutsideLink{one_way("sending"), one_way("receiving"),
                       table.quantity("latency", Dimension::time, time_limits)};
  };
  OutsideLink out = read(reader);
  if (const auto measured = reader.table("measured", measured_outside_keys)) {
    const OutsideLink found = read(*measured);
    if (found.sending_bytes_per_second) out.sending_bytes_per_second = found.sending_bytes_per_second;
    if (found.receiving_bytes_per_second) out.receiving_bytes_per_second = found.receiving_bytes_per_second;
    if (found.latency_seconds) out.latency_seconds = found.latency_seconds;
  }
  return out;
}

/// What is not said is that of all hosts.
OutsideLink read_outside(const TableReader& reader) {
  const OutsideLink out = read_directions(reader);
  if (out == OutsideLink{})
    reader.fail(reader.where(), "the link to other hosts tells nothing",
                "bandwidth (or sending and receiving), or latency", "",
                "outside = { bandwidth = \"100 Mb/s\" }, or leave it out: the host then has what [between] says");
  return out;
}

Rack read_rack(const TableReader& reader, int number) {
  Rack out{reader.text("name", fmt::format("rack{}", number))};
  const std::string wanted = "uplink = { bandwidth = \"10 Gb/s\", latency = \"20 us\" }";
  const auto table = reader.table("uplink", outside_keys);
  if (!table)
    reader.fail(reader.where(), fmt::format("rack {} has no uplink", quote(out.name)), wanted, "",
                "say what its hosts together have towards others, or leave the rack out");
  const OutsideLink uplink = read_directions(*table);
  if (!uplink.sending_bytes_per_second || !uplink.receiving_bytes_per_second)
    reader.fail(table->where(), fmt::format("the uplink of rack {} has no bandwidth", quote(out.name)),
                wanted + ", or sending and receiving apart", "", "");
  out.uplink = {*uplink.sending_bytes_per_second, *uplink.receiving_bytes_per_second,
                uplink.latency_seconds.value_or(0)};
  return out;
}

ValueLimits limits_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::compute:
      return compute_limits;
    case Dimension::bandwidth:
      return bandwidth_limits;
    case Dimension::time:
      return time_limits;
    case Dimension::memory:
      break;
  }
  return memory_limits;
}

std::optional<FusedProducts> read_epilogues(const TableReader& table) {
  const auto words = table.texts(epilogues_key);
  if (!words) return std::nullopt;
  FusedProducts out;
  for (const std::string& word : *words) {
    const std::optional<FusedProduct> product = fused_product(word);
    if (!product)
      table.fail(table.where(epilogues_key), fmt::format("unknown epilogue of a product {}", quote(word)),
                 quoted_list(fused_product_names()), "", did_you_mean(word, fused_product_names()));
    out.insert(*product);
  }
  return out;
}

std::optional<AttentionBy> read_attention(const TableReader& table) {
  if (!table.has(attention_key)) return std::nullopt;
  const std::string word = table.text(attention_key, "");
  for (AttentionBy by : attention_by)
    if (word == name(by)) return by;
  table.fail(table.where(attention_key), fmt::format("attention is not computed by {}", quote(word)),
             quoted_list(attention_by_names()), "", did_you_mean(word, attention_by_names()));
}

DeviceSpeed read_speed(const TableReader& device, std::string_view key) {
  DeviceSpeed speed;
  if (const auto table = device.table(key, speed_keys)) {
    for (const SpeedField& field : speed_fields())
      speed.*field.value = table->quantity(field.key, field.dimension, limits_of(field.dimension));
    speed.epilogues = read_epilogues(*table);
    speed.attention = read_attention(*table);
  }
  return speed;
}

/// "K80" (sm_37), "M60" (sm_52) and so on: what a name that is like none of the known ones may be held against.
std::string first_of_generations() {
  std::string out;
  std::set<std::string_view> architectures;
  for (const DeviceModel& model : device_models())
    if (model.kind == DeviceKind::cuda && architectures.insert(model.architecture).second)
      out += fmt::format("{}\"{}\" ({})", out.empty() ? "" : ", ", model.name, model.architecture);
  return out;
}

/// How to describe a device by hand whose model is no help: as one that is like it, or with figures of some card.
std::string description_by_hand(const DeviceModel* like) {
  constexpr DeviceModel some{"", DeviceKind::cuda, "sm_86", 24, 23, 900, 30, 0, 60, 60};
  const DeviceModel& model = like && like->kind == DeviceKind::cuda ? *like : some;
  std::string tensor_cores;
  if (model.bf16 > 0)
    tensor_cores = fmt::format(", matmul_bf16 = \"{:.3g} TFLOP/s\"", model.bf16);
  else if (model.fp16 > 0)
    tensor_cores = fmt::format(", matmul_fp16 = \"{:.3g} TFLOP/s\"", model.fp16);
  return fmt::format(
      "kind = \"cuda\", architecture = \"{}\", memory = \"{:.0f} GiB\", declared = {{ matmul = \"{:.3g} TFLOP/s\"{}, "
      "memory_bandwidth = \"{:.0f} GB/s\" }}, with its own figures; nvidia-smi --query-gpu=compute_cap --format=csv "
      "tells 8.6 for sm_86",
      model.architecture, std::floor(model.told_gib), model.float32, tensor_cores, model.memory_gbytes_per_second);
}

/// What a known model would have told.
[[noreturn]] void fail_without(const TableReader& reader, std::string_view what, std::string_view line) {
  const std::string model = reader.text("model", "");
  if (model.empty() || find_device_model(model))
    reader.fail(reader.where(), fmt::format("the device has no {}", what), std::string(line), "",
                "or name a model that tells it (docs/cluster.md)");
  if (is_amd_model(model))
    reader.fail(
        reader.where("model"), fmt::format("{} is a GPU of AMD, and only CUDA devices are supported", quote(model)),
        "GPUs of NVIDIA, or cores (kind = \"cpu\")", "", "leave the device out, or describe the cores of its host");
  const std::vector<std::string> near = near_device_models(model);
  std::string known = quoted_list(near), meant;
  if (near.empty())
    known = first_of_generations();
  else if (is_variant_of(model, near.front()))
    meant = fmt::format("it is another chip than a {}: ", near.front());
  else
    meant = fmt::format("did you mean \"{}\"? Or ", near.front());
  reader.fail(reader.where(), fmt::format("the model {} is not known, and the device has no {}", quote(model), what),
              fmt::format("{}, or a known model, as {} (docs/cluster.md)", line, known), quote(model),
              fmt::format("{}describe the device by hand: {}", meant,
                          description_by_hand(near.empty() ? nullptr : find_device_model(near.front()))));
}

DeviceKind read_kind(const TableReader& reader, const DeviceModel* model) {
  const std::vector<std::string> kinds{"cpu", "cuda"};
  if (!reader.has("kind")) {
    if (model) return model->kind;
    fail_without(reader, "kind", "kind = \"cpu\" or kind = \"cuda\"");
  }
  const std::string kind = reader.text("kind", "");
  if (kind != "cpu" && kind != "cuda")
    reader.fail(reader.where("kind"), fmt::format("unknown kind of device {}", quote(kind)), "\"cpu\" or \"cuda\"", "",
                did_you_mean(kind, kinds));
  const DeviceKind result = kind == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  if (model && model->kind != result)
    reader.fail(reader.where("kind"), fmt::format("a {} is not of kind {}", model->name, quote(kind)), "", "", "");
  return result;
}

void check_architecture(const TableReader& reader, const Device& device) {
  if (device.kind == DeviceKind::cpu) {
    if (reader.has("architecture"))
      reader.fail(reader.where("architecture"), "a cpu device has no architecture", "", "", "leave it out");
    return;
  }
  const std::string& text = device.architecture;
  const bool well_formed = text.starts_with("sm_") && text.size() >= 5 && text.size() <= 7 &&
                           std::isdigit(static_cast<unsigned char>(text[3])) &&
                           std::isdigit(static_cast<unsigned char>(text[4]));
  if (text.empty())
    reader.fail(reader.where(), "the architecture of the cuda device is not known",
                "architecture = \"sm_80\", or a model from docs/cluster.md", "", "");
  if (!well_formed)
    reader.fail(reader.where("architecture"), "not an architecture", "\"sm_\" and two or three digits", quote(text),
                "");
}

/// All but name, host and index.
Device read_device(const TableReader& reader) {
  Device device;
  device.model = reader.text("model", "");
  const DeviceModel* model = find_device_model(device.model);
  device.kind = read_kind(reader, model);
  device.architecture = reader.text("architecture", model ? std::string(model->architecture) : "");
  check_architecture(reader, device);
  device.declared = read_speed(reader, "declared");
  device.measured = read_speed(reader, "measured");
  if (device.kind == DeviceKind::cuda)
    for (const auto& [key, speed] : {std::pair("declared", &device.declared), std::pair("measured", &device.measured)})
      if (speed->message_bytes_per_second)
        reader.fail(reader.where(key), "messages cost a cuda device no computing", "", "",
                    "leave `messages` out, or enter it for the host's cpu devices");
  const std::optional<double> memory = reader.quantity("memory", Dimension::memory, memory_limits);
  device.memory_bytes = memory ? int64_t(*memory) : model ? model->memory_bytes() : 0;
  device.duty = reader.number("duty", duty_limits, 1);
  if (device.duty != 1 && device.kind != DeviceKind::cpu)
    reader.fail(reader.where("duty"), "only a cpu device can have a duty below 1", "", "", "leave it out");
  if (reader.has("cores")) {
    const double cores = reader.number("cores", core_limits, 1);
    if (device.kind != DeviceKind::cpu)
      reader.fail(reader.where("cores"), "only a cpu device has cores", "", "", "leave it out");
    if (cores != std::floor(cores))
      reader.fail(reader.where("cores"), "the number of cores is no whole number", "1, 2, 3, ...",
                  fmt::format("{}", cores), "a part of a core is said by duty");
    device.cores = int(cores);
  }
  if (model) {
    const DeviceSpeed sheet = model->speed();
    for (const SpeedField& field : speed_fields())
      if (!(device.declared.*field.value)) device.declared.*field.value = sheet.*field.value;
  }
  if (device.memory_bytes == 0) fail_without(reader, "memory", "memory = \"16 GiB\"");
  if (device.matmul_flops_per_second() == 0)
    fail_without(reader, "speed of matrix products", "declared = { matmul = \"15.7 TFLOP/s\", ... }");
  if (device.memory_bytes_per_second() == 0)
    fail_without(reader, "memory bandwidth", "declared = { memory_bandwidth = \"900 GB/s\", ... }");
  return device;
}

/// Builds up the cluster and sees that names stay unique and numbers bounded.
struct Builder {
  const std::string& file;
  Cluster cluster;
  std::set<std::string> host_names, device_names;

  /// One entry of the file, `count` times; `qualify`: the device's name is preceded by its host's.
  void add_host(const TableReader& reader, int number, bool qualify) {
    const std::string base = reader.text("name", fmt::format("host{}", number));
    const int count = reader.count("count");
    const auto devices = reader.tables("device", device_keys);
    if (devices.empty())
      reader.fail(reader.where(), fmt::format("host {} has no device", quote(base)), "at least one [[host.device]]", "",
                  "");
    const auto link = reader.table("inside", link_keys);
    const Link inside = link ? read_link(*link) : unlimited_link;
    const auto own = reader.table("outside", outside_keys);
    const OutsideLink outside = own ? read_outside(*own) : OutsideLink{};
    const int rack = reader.has("rack") ? rack_of(reader) : -1;
    for (int i = 0; i < count; ++i) {
      const std::string name = count > 1 ? fmt::format("{}[{}]", base, i) : base;
      if (!host_names.insert(name).second)
        reader.fail(reader.where("name"), fmt::format("there are two hosts with the name {}", quote(name)),
                    "unique names", "", "");
      const int host = int(cluster.hosts.size());
      cluster.hosts.push_back({name, inside, outside, rack});
      int index = 0;
      const size_t first = cluster.devices.size();
      for (const TableReader& device : devices) index = add_devices(device, host, index, qualify ? name + "." : "");
      count_cpu_devices(first);
      if (index > 1 && !link)
        reader.fail(reader.where(), fmt::format("host {} has {} devices but no link inside", quote(name), index),
                    "inside = { bandwidth = \"12 GB/s\", latency = \"10 us\" }", "", "");
    }
  }

  void add_racks(const std::vector<TableReader>& racks) {
    for (size_t i = 0; i < racks.size(); ++i) {
      cluster.racks.push_back(read_rack(racks[i], int(i)));
      const std::string& name = cluster.racks.back().name;
      if (std::ranges::count(cluster.racks, name, &Rack::name) > 1)
        racks[i].fail(racks[i].where("name"), fmt::format("there are two racks with the name {}", quote(name)),
                      "unique names", "", "");
    }
  }

  int rack_of(const TableReader& host) const {
    const std::string name = host.text("rack", "");
    const auto found = std::ranges::find(cluster.racks, name, &Rack::name);
    if (found != cluster.racks.end()) return int(found - cluster.racks.begin());
    std::vector<std::string> known;
    for (const Rack& rack : cluster.racks) known.push_back(rack.name);
    host.fail(host.where("rack"), fmt::format("there is no rack {}", quote(name)),
              known.empty() ? "a [[rack]] of this name, with its uplink" : quoted_list(known), "",
              did_you_mean(name, known));
  }

  void check_racks(const std::vector<TableReader>& racks) const {
    for (size_t i = 0; i < racks.size(); ++i)
      if (std::ranges::count(cluster.hosts, int(i), &Host::rack) == 0)
        racks[i].fail(racks[i].where(), fmt::format("no host is in rack {}", quote(cluster.racks[i].name)),
                      "rack = " + quote(cluster.racks[i].name) + " in its [[host]]", "", "or leave the rack out");
  }

  /// Tells each device of a host, whose devices stand in the list from `first` on, how many of them are cpu devices.
  void count_cpu_devices(size_t first) {
    const auto of_host = std::span(cluster.devices).subspan(first);
    const auto count = std::ranges::count(of_host, DeviceKind::cpu, &Device::kind);
    for (Device& device : of_host) device.cpu_devices_of_host = std::max(1, int(count));
  }

  /// For a table without a name: `base`, or with the least number that no table of the host has: gpu, gpu2, gpu3.
  std::string free_name(const std::string& base, const std::string& prefix) const {
    std::string name = base;
    const auto taken = [&] {
      return device_names.count(prefix + name) > 0 || device_names.count(prefix + name + "[0]") > 0;
    };
    for (int number = 2; taken(); ++number) name = fmt::format("{}{}", base, number);
    return name;
  }

  /// Gives the next free index of the host.
  int add_devices(const TableReader& reader, int host, int index, const std::string& prefix) {
    Device device = read_device(reader);
    const int count = reader.count("count");
    const std::string base = reader.text("name", free_name(device.kind == DeviceKind::cpu ? "cpu" : "gpu", prefix));
    if (count > max_cluster_devices - int(cluster.devices.size()))
      reader.fail(reader.where(), "the cluster has too many devices", fmt::format("at most {}", max_cluster_devices),
                  "", "");
    for (int i = 0; i < count; ++i, ++index) {
      device.name = prefix + (count > 1 ? fmt::format("{}[{}]", base, i) : base);
      device.host = host;
      device.index = index;
      if (!device_names.insert(device.name).second)
        reader.fail(reader.has("name") ? reader.where("name") : reader.where(),
                    fmt::format("there are two devices with the name {}", quote(device.name)), "unique names", "",
                    "give each a name of its own");
      cluster.devices.push_back(device);
    }
    return index;
  }
};

}  // namespace

Cluster parse_cluster(std::string_view toml, const std::string& file) {
  if (int64_t(toml.size()) > max_cluster_file_bytes)
    throw UserError(Diagnostic{{file},
                               "cluster",
                               fmt::format("the cluster file is longer than {} bytes", max_cluster_file_bytes),
                               "",
                               "",
                               "",
                               {}});
  const toml::table table = parse_toml(toml, file, "cluster");
  const TableReader root(table, file, "", root_keys);
  Builder builder{file, {}, {}, {}};
  builder.cluster.file = file;
  builder.cluster.name = root.text("name", file.substr(file.find_last_of('/') + 1));
  const auto hosts = root.tables("host", host_keys);
  if (hosts.empty())
    throw UserError(Diagnostic{{file},
                               "cluster",
                               "the cluster has no device",
                               "at least one [[host]] with a [[host.device]]",
                               "",
                               "see docs/cluster.md",
                               {}});
  const auto racks = root.tables("rack", rack_keys);
  builder.add_racks(racks);
  const bool one_host = hosts.size() == 1 && hosts[0].count("count") == 1;
  for (size_t i = 0; i < hosts.size(); ++i) builder.add_host(hosts[i], int(i), !one_host);
  builder.check_racks(racks);
  if (const auto link = root.table("between", link_keys)) {
    builder.cluster.between = read_link(*link);
  } else if (builder.cluster.hosts.size() > 1) {
    throw UserError(Diagnostic{{file},
                               "cluster",
                               fmt::format("there is no link between hosts {} and {}",
                                           quote(builder.cluster.hosts[0].name), quote(builder.cluster.hosts[1].name)),
                               "[between] with bandwidth = \"10 Gb/s\" and latency = \"50 us\"",
                               "",
                               "",
                               {}});
  }
  return std::move(builder.cluster);
}

Cluster load_cluster(const std::string& path) {
  return parse_cluster(read_file(path, "cluster file", max_cluster_file_bytes), path);
}

}  // namespace hetsynth
