// hetsynth as a part of another program (docs/embedding.md): build or load a model, plan it for a cluster, prove the
// plan, train with data of the program's own, read tensors, save. Nothing is written to standard output, signals are
// left to the program, and every failure is an Error with the words of the command line.
//
// Objects may be used by one thread at a time, and different ones by several threads at once. Models, clusters and
// plans are handles: copies share what they stand for.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hetsynth/api_version.h"

namespace hetsynth::api {

/// What went wrong, as the command line would say it: place, what was expected, what was found, how to mend it.
class Error : public std::runtime_error {
 public:
  Error(const std::string& text, int code);
  ~Error() override;
  /// The exit code of the command line (docs/errors.md): 3 for what a file or the model has wrong, 4 if nothing fits,
  /// 5 for a plan that is refuted, 6 for one that is not proved.
  int code() const { return code_; }

 private:
  int code_;
};

/// The version of the library that this program runs with.
std::string library_version();

/// Throws Error unless headers of that version fit the library. Every way to a model or a cluster asks it.
void require_version(std::string_view of_headers);

/// A tensor of a model: its name, its extents, and whether it holds int32 instead of float32.
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  bool integer = false;
};

/// Values of the options that a model asks for, and of `batch`, `micro_batches`, `turns`, `freeze`.
using Settings = std::map<std::string, std::string>;

/// What is trained: the step of one device, of a model file or of a function of this program.
class Model {
 public:
  /// Compiles a model file.
  static Model from_file(const std::string& path, const Settings& settings = {}) {
    require_version(HETSYNTH_API_VERSION);
    return loaded(path, settings);
  }
  /// `build` calls the functions of hetsynth/hetsynth.h as `void model()` of a model file does; it is called again when
  /// other settings are needed, also later. What it throws, other than mistakes in its use of hetsynth, comes out as it
  /// is. `name` stands for the file in messages and plans.
  static Model from_function(std::function<void()> build, const Settings& settings = {},
                             const std::string& name = "the model of this program") {
    require_version(HETSYNTH_API_VERSION);
    return built(std::move(build), settings, name);
  }

  /// What a step reads: dimension 0 counts all samples of the step.
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> parameters() const;
  /// The compiler's warnings about a model file.
  std::string warnings() const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  explicit Model(std::shared_ptr<const Impl> impl);
  static Model loaded(const std::string& path, const Settings& settings);
  static Model built(std::function<void()> build, const Settings& settings, const std::string& name);
  std::shared_ptr<const Impl> impl_;
};

/// Devices and links (docs/cluster.md).
class Cluster {
 public:
  static Cluster from_file(const std::string& path) {
    require_version(HETSYNTH_API_VERSION);
    return read(path);
  }
  /// The text of a cluster file; `name` stands for the file in messages.
  static Cluster parse(std::string_view toml, const std::string& name = "cluster") {
    require_version(HETSYNTH_API_VERSION);
    return parsed(toml, name);
  }
  /// So many equal devices on the cores of this machine; 0: one per core.
  static Cluster this_machine(int devices = 0) {
    require_version(HETSYNTH_API_VERSION);
    return local(devices);
  }

  std::vector<std::string> devices() const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  explicit Cluster(std::shared_ptr<const Impl> impl);
  static Cluster read(const std::string& path);
  static Cluster parsed(std::string_view toml, const std::string& name);
  static Cluster local(int devices);
  std::shared_ptr<const Impl> impl_;
};

/// How far a search has come.
struct PlanProgress {
  double elapsed_seconds = 0;
  std::optional<double> best_step_seconds;  ///< of the best plan so far
  double bound_seconds = 0;                 ///< no plan is shown to be below
};

/// As the options of `hetsynth plan` of the same names.
struct PlanOptions {
  enum class Effort : uint8_t { quick, normal, full } effort = Effort::normal;
  std::optional<double> time_limit_seconds = {};  ///< then the best plan so far is taken
  std::vector<std::string> without = {};          ///< hosts and devices that are left out
  int mesh_axes = 2;
  std::optional<int> stages = {};  ///< of a pipeline; none: as many as are fastest
  std::string pins_file = {};      ///< TOML; empty: nothing is fixed
  /// Called ten times a second and for every better plan; false ends the search with the best so far.
  std::function<bool(const PlanProgress&)> progress = {};
};

/// What is predicted of one device in a step.
struct DeviceShare {
  std::string device;
  double share = 0;  ///< of the step's floating-point work
  double compute_seconds = 0, communication_seconds = 0, idle_seconds = 0;
  int64_t memory_bytes = 0, memory_limit_bytes = 0;
};

/// What the check of a plan says: that its devices together compute the model's step, for all values.
struct Proof {
  enum class Verdict : uint8_t { proved, refuted, unknown } verdict = Verdict::unknown;
  std::string reason;  ///< one sentence
  std::string text;    ///< all of it: scope and, if refuted, the counterexample
  std::string json;
};

/// The program of every device, and what it is predicted to cost.
class Plan {
 public:
  /// A plan file for a model and a cluster. Settings that the plan was made with hold where the model was given none.
  static Plan load(const std::string& path, const Model& model, const Cluster& cluster);
  void save(const std::string& path) const;

  double step_seconds() const;
  /// No plan on the same devices is below, at any shares, in what the search minimises; 0: not known.
  double bound_seconds() const;
  std::vector<DeviceShare> devices() const;
  /// What `hetsynth plan` prints, for people and as JSON.
  std::string text() const;
  std::string json() const;
  /// The plan file.
  std::string document() const;
  /// Asked for once; later calls give what the first one found.
  Proof prove(double time_limit_seconds = 60) const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  friend Plan plan(const Model& model, const Cluster& cluster, const PlanOptions& options);
  explicit Plan(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// Searches for the fastest program. Throws Error with code 4 if none fits.
Plan plan(const Model& model, const Cluster& cluster, const PlanOptions& options = {});

/// The values of one step by the name of their input, row-major, all samples of the step. What is given is read while
/// the step runs.
class Batch {
 public:
  void set(const std::string& input, std::span<const float> values) { floats_[input] = values; }
  void set(const std::string& input, std::span<const int32_t> values) { integers_[input] = values; }
  const std::map<std::string, std::span<const float>>& floats() const { return floats_; }
  const std::map<std::string, std::span<const int32_t>>& integers() const { return integers_; }

 private:
  std::map<std::string, std::span<const float>> floats_;
  std::map<std::string, std::span<const int32_t>> integers_;
};

/// Samples that a source is asked for: `count` of them, from the `first` of the run on, into the one of the two spans
/// that is of the input's type.
struct SampleRequest {
  const std::string& input;
  int64_t first = 0, count = 0;
  std::span<float> floats;
  std::span<int32_t> integers;
};
/// Asked once for each input of a step, by one thread at a time.
using SampleSource = std::function<void(const SampleRequest&)>;

struct TrainingOptions {
  uint64_t seed = 0;  ///< of parameters, dropout, and the order of `data`
  /// File or folder, as --data of `hetsynth run` takes them, for steps that are given no data; empty: none, and inputs
  /// that can be made up are.
  std::string data = {};
  bool unverified = false;  ///< run a plan that is not proved, or whose source does not do what it says
  /// Samples for steps that are given no data, instead of `data`. It is asked for a step while the one before is taken,
  /// by a thread of the training, and so for one step more than are taken. What it throws comes out of its own step.
  SampleSource source = {};
};

struct StepResult {
  int64_t step = 0;  ///< counted from 0
  double loss = 0;
  double seconds = 0;
  std::map<std::string, double> metrics = {};
};

/// The loss over data that are not trained on.
struct EvaluationResult {
  double loss = 0;  ///< of all samples, as `hetsynth evaluate` tells it
  int64_t batches = 0, samples = 0;
  double seconds = 0;
  std::map<std::string, double> metrics = {};  ///< means over the batches
};

/// A tensor's values, row-major; those of whole numbers are in `integers`.
struct TensorValues {
  TensorInfo info;
  std::vector<float> floats;
  std::vector<int32_t> integers;
};

/// The devices of a plan at work: threads of this process, and the GPUs of this machine.
class Training {
 public:
  /// Proves the plan, generates and checks source, compiles it, gives parameters their starting values. Throws Error
  /// with code 5 or 6 for a plan that is not proved, and code 1 if a device or its memory cannot be had.
  explicit Training(const Plan& plan, const TrainingOptions& options = {});
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  /// Takes one step with this data. Data that do not fit (a name, a number of values, a value that the input does not
  /// take) throw before anything is computed.
  StepResult step(const Batch& batch);
  /// The source is asked when the step begins, by the thread that takes it.
  StepResult step(const SampleSource& source);
  /// Takes one step with the samples of TrainingOptions::source or TrainingOptions::data.
  StepResult step();
  /// The number of the step that comes next.
  int64_t next_step() const;

  /// Measures the loss with the parameters as they are, without dropout, over a file or folder, or
  /// "synthetic", as --data of `hetsynth evaluate` takes them: each sample once, in whole batches, at most so many of
  /// them; 0: all. The first call plans the evaluation in the memory that the training leaves, proves it and compiles
  /// it. Training goes on as if it had not been called.
  EvaluationResult evaluate(const std::string& data, int64_t batches = 0);
  /// The same over samples of a source, which are numbered from 0 in each call. It is asked for a batch while the one
  /// before is computed, by a thread of the training.
  EvaluationResult evaluate(const SampleSource& source, int64_t batches);

  /// A parameter, a state of the optimizer, or what the model named by `output`, put together from the devices.
  TensorValues tensor(const std::string& name) const;
  /// Gives a parameter other values, of its shape.
  void set_tensor(const std::string& name, std::span<const float> values);

  /// A checkpoint, as `hetsynth run` writes and continues it.
  void save(const std::string& path) const;
  /// Goes on where the checkpoint stands, with its seed.
  void load(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth::api
