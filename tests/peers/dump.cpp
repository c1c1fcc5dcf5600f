// peer_dump FOLDER MODEL...: writes what hetsynth computes, for compare.py to hold against PyTorch: every sample of the
// operator list, every case of cases.cpp, and each model with its loss and gradients. Values are float64, by the
// reference interpreter, which is what generated programs are tested against.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "dsl/base/error.h"
#include "dsl/frontend/model.h"
#include "dsl/ir/interpreter.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/parameter_groups.h"
#include "dsl/transform/unroll.h"
#include "hetsynth/hetsynth.h"
#include "tests/dsl/operator_testing.h"
#include "tests/peers/cases.h"

namespace hetsynth::peers {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Dump {
 public:
  explicit Dump(const fs::path& folder) : folder_(folder) { fs::create_directories(folder); }
  ~Dump() { std::ofstream(folder_ / "dump.json") << out_; }

  void sample(const std::string& name, const OperatorSample& sample) {
    const TracedSample traced = trace_sample(sample);
    std::mt19937 random(3);
    const Bindings leaves = spread_leaves(traced, sample, random);
    const std::vector<Array> values = interpret(traced.program, leaves, {.seed = 5, .step = 3});
    json entry = {{"name", name}, {"nodes", nodes_until(traced.program, traced.output)}, {"values", json::object()}};
    for (const auto& [node, array] : leaves) entry["values"][std::to_string(node)] = store(array);
    entry["output"] = traced.output;
    entry["weight"] = traced.weight;
    entry["result"] = store(values[static_cast<size_t>(traced.output)]);
    for (size_t j = 0; j < traced.inputs.size(); ++j) {
      if (traced.gradients[j] < 0) continue;
      entry["gradients"][std::to_string(traced.inputs[j])] = store(values[static_cast<size_t>(traced.gradients[j])]);
    }
    out_["samples"].push_back(std::move(entry));
  }

  void function(const Case& c) {
    Trace trace("case.cpp");
    std::vector<Tensor> arguments;
    std::mt19937 random(4);
    Bindings leaves;
    json entry = {{"name", c.name}, {"torch", c.torch}};
    const auto here = std::source_location::current();
    const auto leaf = [&](const Argument& a) {
      Tensor t = trace.add_leaf(a.classes > 0 ? NodeKind::input : NodeKind::parameter,
                                fmt::format("x{}", trace.program.nodes.size()),
                                {a.shape, a.classes > 0 ? DType::i32 : DType::f32}, here);
      trace.program.nodes[static_cast<size_t>(t.node())].data.classes = a.classes;
      const OperatorSample::Domain domain =
          a.classes > 0 ? OperatorSample::Domain{0, double(a.classes - 1)} : OperatorSample::Domain{a.low, a.high};
      leaves[t.node()] = spread_values(a.shape, domain, a.classes > 0, random);
      return t;
    };
    for (const Argument& a : c.arguments) arguments.push_back(leaf(a));
    Tensor result = c.build(arguments);
    Tensor weight = leaf({result.shape()});
    Tensor loss = emit_sum(result, weight);
    trace.phase = Phase::backward;
    const std::vector<Tensor> gradients = hetsynth::gradients(loss, arguments);
    leaves.merge(initial_values(trace.program, 1));  // of states that an operator keeps
    const std::vector<Array> values = interpret(trace.program, leaves, {});
    for (size_t j = 0; j < arguments.size(); ++j) {
      entry["arguments"].push_back(store(leaves.at(arguments[j].node())));
      entry["integer"].push_back(c.arguments[j].classes > 0);
      entry["gradients"].push_back(
          gradients[j].defined() ? json(store(values[static_cast<size_t>(gradients[j].node())])) : json());
    }
    entry["weight"] = store(leaves.at(weight.node()));
    entry["result"] = store(values[static_cast<size_t>(result.node())]);
    out_["cases"].push_back(std::move(entry));
  }

  /// Five steps on mean((w - x)^4): gradients that change from step to step.
  void optimizer(const OptimizerCase& c) {
    Trace trace("case.cpp");
    const auto here = std::source_location::current();
    Tensor w = trace.add_leaf(NodeKind::parameter, "w", {{3, 4}, DType::f32}, here);
    Tensor x = trace.add_leaf(NodeKind::input, "x", {{3, 4}, DType::f32}, here);
    Tensor error = w - x;
    c.minimize(mean(error * error * error * error));
    const Program program = differentiate(trace);
    std::mt19937 random(6);
    Bindings leaves = initial_values(program, 1);
    json entry = {{"name", c.name}, {"torch", c.torch}, {"clip_norm", c.clip_norm}, {"schedule", c.schedule}};
    for (const Node& node : program.nodes) {
      if (node.kind != NodeKind::parameter && node.kind != NodeKind::input) continue;
      leaves[node.id] = spread_values(node.type.shape, {}, false, random);
      entry[node.name] = store(leaves[node.id]);
    }
    for (int64_t step = 0; step < 5; ++step) {
      const std::vector<Array> values = interpret(program, leaves, {.seed = 1, .step = step});
      for (const Update& update : program.updates) leaves[update.target] = values[static_cast<size_t>(update.value)];
    }
    for (const Node& node : program.nodes) {
      if (node.kind == NodeKind::parameter) entry["result"] = store(leaves[node.id]);
    }
    out_["optimizers"].push_back(std::move(entry));
  }

  /// An entry for each loss of the model, with the gradients of the parameters that follow it.
  void model(const std::string& path) {
    const auto loaded = load_model(path);
    const std::unique_ptr<Trace> trace = trace_small(*loaded);
    Program& program = trace->program;
    const int forward = static_cast<int>(program.nodes.size());
    // PyTorch runs the operators one by one: of a loop, those of every turn.
    const Unrolling flat = unroll(program);
    const auto there = [&](NodeId node) { return flat.copies[static_cast<size_t>(node)].back(); };
    json common = {{"nodes", nodes_until(flat.program, static_cast<NodeId>(flat.program.nodes.size()) - 1)}};
    for (const NodeId node : trace->stopped)
      for (const NodeId copy : flat.copies[static_cast<size_t>(node)]) common["stopped"].push_back(copy);
    std::vector<std::vector<Tensor>> parameters, gradients;
    if (trace->minimized.size() == 1) {
      parameters.emplace_back();  // of frozen ones, too
      for (const Node& node : program.nodes)
        if (node.kind == NodeKind::parameter) parameters.back().push_back(Tensor(node.id));
    } else {
      for (const TrainedGroup& group : trained_groups(*trace)) parameters.push_back(group.parameters);
    }
    trace->phase = Phase::backward;
    const auto loss = [&](size_t of) { return trace->minimized[of].losses.front().total.node(); };
    for (size_t i = 0; i < parameters.size(); ++i)
      gradients.push_back(hetsynth::gradients(Tensor(loss(i)), parameters[i]));
    const Bindings leaves = leaf_values(program);
    const std::vector<Array> values = interpret(program, leaves, {});
    for (const NodeId node : drawn(program, forward)) {
      common["nodes"][static_cast<size_t>(there(node))]["leaf"] = true;
      common["values"][std::to_string(there(node))] = store(values[static_cast<size_t>(node)]);
    }
    for (const auto& [node, array] : leaves)
      if (node < forward) common["values"][std::to_string(there(node))] = store(array);
    for (size_t i = 0; i < parameters.size(); ++i) {
      json entry = common;
      entry["name"] = fs::path(path).stem().string() + (i > 0 ? " " + trace->minimized[i].group.name : "");
      entry["loss"] = there(loss(i));
      for (size_t j = 0; j < parameters[i].size(); ++j)
        if (gradients[i][j].defined())
          entry["gradients"][std::to_string(there(parameters[i][j].node()))] =
              store(values[static_cast<size_t>(gradients[i][j].node())]);
      entry["result"] = values[static_cast<size_t>(loss(i))].values[0];
      out_["models"].push_back(std::move(entry));
    }
  }

 private:
  /// sum(result * weight), without the operators that users write, so that a case tests its own operator alone.
  static Tensor emit_sum(Tensor result, Tensor weight) {
    std::string letters;
    for (int d = 0; d < result.rank(); ++d) letters += static_cast<char>('a' + d);
    return einsum(letters + "," + letters + "->", result, weight);
  }

  /// Nodes of the forward pass that draw random numbers and that no gradient passes: PyTorch draws others, so their
  /// values are handed over.
  static std::vector<NodeId> drawn(const Program& program, int forward) {
    std::vector<bool> learns(static_cast<size_t>(forward));
    std::vector<NodeId> out;
    for (NodeId id = 0; id < forward; ++id) {
      const Node& node = program.nodes[static_cast<size_t>(id)];
      learns[static_cast<size_t>(id)] =
          node.kind == NodeKind::parameter ||
          std::ranges::any_of(node.inputs, [&](NodeId input) { return learns[static_cast<size_t>(input)]; });
      if (!node.leaf() && !learns[static_cast<size_t>(id)] && text(node.body).find("random(") != std::string::npos)
        out.push_back(id);
    }
    return out;
  }

  using Settings = std::map<std::string, std::string>;

  /// What the comment "// Tiny: name=value ..." of a model says, or size=tiny; models with neither are made small by
  /// what options they have.
  static std::vector<Settings> small_settings(const std::string& path) {
    const std::string mark = "// Tiny: ";
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(mark)) continue;
      Settings out;
      std::istringstream words(line.substr(mark.size()));
      for (std::string word; words >> word;) out[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
      return {out};
    }
    return {{{"size", "tiny"}},
            {{"layers", "2"}, {"heads", "2"}, {"width", "16"}, {"batch", "2"}, {"seq", "8"}},
            {{"width", "4"}, {"hidden", "8"}, {"batch", "4"}}};
  }

  static std::unique_ptr<Trace> trace_small(const LoadedModel& model) {
    for (const Settings& settings : small_settings(model.file())) {
      Settings without_dropout = settings;
      without_dropout["dropout"] = "0";  // PyTorch draws other random numbers
      for (const Settings& attempt : {without_dropout, settings}) {
        try {
          return model.trace(attempt);
        } catch (const UserError& error) {
          if (error.code() != ExitCode::usage) throw;  // else an option that the model does not have
        }
      }
    }
    return model.trace();
  }

  /// Starting values of parameters, moved a little so that none is exactly 0 or 1; random inputs.
  static Bindings leaf_values(const Program& program) {
    Bindings out = initial_values(program, 1);
    std::mt19937 random(5);
    std::uniform_real_distribution<double> noise(-0.05, 0.05);
    std::normal_distribution<double> normal;
    for (const Node& node : program.nodes) {
      if (node.kind == NodeKind::parameter) {
        for (double& value : out[node.id].values) value += noise(random);
      } else if (node.kind == NodeKind::input) {
        Array array(node.type.shape);
        const int64_t classes = node.data.classes > 0 ? node.data.classes : 2;
        std::uniform_int_distribution<int64_t> index(0, classes - 1);
        const bool whole = node.type.dtype == DType::i32 || node.data.classes > 0;
        for (double& value : array.values) value = whole ? double(index(random)) : normal(random);
        out[node.id] = std::move(array);
      }
    }
    return out;
  }

  static json access_json(const Access& access) {
    json dims = json::array();
    for (const DimIndex& index : access.dims) {
      json terms = json::array();
      for (const IndexTerm& t : index.terms) terms.push_back({t.factor, t.stride, t.divide, t.modulo});
      dims.push_back({{"terms", terms}, {"offset", index.offset}});
    }
    return {{"dims", dims}, {"zero_outside", access.zero_outside}};
  }

  static json nodes_until(const Program& program, NodeId last) {
    json out = json::array();
    for (const Node& node : program.nodes) {
      if (node.id > last) break;
      json entry = {{"id", node.id},
                    {"name", node.name},
                    {"tag", node.tag()},
                    {"shape", node.type.shape},
                    {"integer", node.type.dtype == DType::i32},
                    {"leaf", node.leaf()}};
      if (!node.leaf()) {
        entry["inputs"] = node.inputs;
        entry["attributes"] = node.op->attributes();
        entry["body"] = text(node.body);
        entry["output"] = access_json(node.space.output);
        for (const Factor& f : node.space.factors)
          entry["factors"].push_back({f.size, f.kind == FactorKind::sum   ? "sum"
                                              : f.kind == FactorKind::max ? "max"
                                                                          : ""});
        for (const Access& a : node.space.inputs) entry["accesses"].push_back(access_json(a));
      }
      out.push_back(std::move(entry));
    }
    return out;
  }

  /// Writes an npy file of float64 and gives its name.
  std::string store(const Array& array) {
    std::string shape;
    for (const int64_t extent : array.shape) shape += std::to_string(extent) + ",";
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    const std::string name = fmt::format("{}.npy", files_++);
    std::ofstream file(folder_ / name, std::ios::binary);
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size() & 0xFF)
         << static_cast<char>(header.size() >> 8) << header;
    file.write(reinterpret_cast<const char*>(array.values.data()),
               static_cast<std::streamsize>(array.values.size() * sizeof(double)));
    return name;
  }

  fs::path folder_;
  json out_ = {
      {"samples", json::array()}, {"cases", json::array()}, {"optimizers", json::array()}, {"models", json::array()}};
  int files_ = 0;
};

}  // namespace
}  // namespace hetsynth::peers

int main(int count, char** arguments) {
  using namespace hetsynth;
  if (count < 2) {
    fmt::print(stderr, "usage: peer_dump FOLDER [MODEL...]\n");
    return 2;
  }
  try {
    peers::Dump dump(arguments[1]);
    for (const OperatorInfo& info : operator_list()) {
      for (size_t i = 0; i < info.samples.size(); ++i) dump.sample(fmt::format("{} {}", info.name, i), info.samples[i]);
    }
    for (const peers::Case& c : peers::cases()) dump.function(c);
    for (const peers::OptimizerCase& c : peers::optimizer_cases()) dump.optimizer(c);
    for (int i = 2; i < count; ++i) {
      fmt::print("{}\n", arguments[i]);
      std::fflush(stdout);
      dump.model(arguments[i]);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "peer_dump: {}\n", error.what());
    return 1;
  }
  return 0;
}
