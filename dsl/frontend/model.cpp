#include "dsl/frontend/model.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "dsl/base/excerpt.h"
#include "dsl/base/file.h"
#include "dsl/frontend/crash_guard.h"
#include "dsl/frontend/model_object.h"
#include "dsl/jit/native_module.h"

namespace hetsynth {
namespace {

constexpr const char* builder_symbol = "_Z5modelv";  // void model()

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

NativeModule link(const std::string& path, const ModelObject& object) {
  try {
    const auto exits = reinterpret_cast<void*>(&exit_of_model);
    return NativeModule::load(object.code, path,
                              {{"exit", exits}, {"quick_exit", exits}, {"_exit", exits}, {"_Exit", exits}});
  } catch (const LinkError& error) {
    std::string names;
    for (const std::string& symbol : error.symbols) names += (names.empty() ? "" : ", ") + symbol;
    throw UserError({.where = {path},
                     .message = "the model uses what nobody defines: " + names,
                     .mend = "define it in the model file, or include a header that does"});
  }
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

/// Runs code of the model; what it throws becomes a message about the model. Our own faults stay ours.
template <class F>
void run_user_code(const std::string& path, const Trace* trace, const F& function) {
  const CrashGuard guard(path, trace);
  try {
    function();
  } catch (const UserError& error) {
    throw UserError(with_excerpts(error.diagnostic()), error.code());
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(
        {.where = {path}, .message = fmt::format("the model threw {}: {}", type_name(typeid(error)), error.what())});
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    throw UserError(
        {.where = {path}, .message = "the model threw " + (type ? type_name(*type) : std::string("something"))});
  }
}

/// The same of a function of this program, whose exceptions and signals are left to it.
template <class F>
void run_own_code(const F& function) {
  try {
    function();
  } catch (const UserError& error) {
    throw UserError(with_excerpts(error.diagnostic()), error.code());
  }
}

}  // namespace

std::unique_ptr<Trace> LoadedModel::trace(const std::map<std::string, std::string>& settings) const {
  auto trace = std::make_unique<Trace>(file_, settings);
  const auto run = [file = file_, code = code_, trace = trace.get()](const auto& function) {
    if (code)
      run_user_code(file, trace, function);
    else
      run_own_code(function);
  };
  run([&] { run_builder(*trace, builder_); });
  // For further micro-batches, when the trace is differentiated.
  trace->builder = [run, builder = builder_] { run(builder); };
  return trace;
}

/// Arguments in the wrong order are common: the compiler's words on a plan would help nobody.
static void check_is_source(const std::string& path) {
  for (const auto& [ending, kind] : {std::pair(".json", "a plan or certificate (JSON)"), {".toml", "a cluster (TOML)"}})
    if (path.ends_with(ending))
      throw UserError({.where = {path},
                       .tag = "model",
                       .message = "this is no model file",
                       .expected = "C++ that includes hetsynth/hetsynth.h and defines void model()",
                       .found = kind,
                       .mend = "name the model first, then the plan; a cluster follows --cluster"});
}

std::shared_ptr<LoadedModel> load_model(const std::string& path, const LoadOptions& options) {
  check_is_source(path);
  auto model = std::make_shared<LoadedModel>();
  model->file_ = path;
  ModelObject object = compile_model(path, options, model->times_);
  model->warnings_ = object.warnings;
  auto start = std::chrono::steady_clock::now();
  NativeModule module;
  run_user_code(path, nullptr, [&] { module = link(path, object); });  // runs static initialisers
  model->times_.link_seconds = seconds_since(start);
  auto* const builder = reinterpret_cast<void (*)()>(module.find(builder_symbol));
  if (!builder)
    throw UserError({.where = {path},
                     .message = "the model file defines no function `void model()`",
                     .mend = "put what builds the network into `void model() { ... }`, outside of any namespace"});
  model->builder_ = builder;
  model->code_ = module.owner();
  return model;
}

std::shared_ptr<LoadedModel> model_of_function(std::function<void()> build, std::string name) {
  auto model = std::make_shared<LoadedModel>();
  model->file_ = std::move(name);
  model->builder_ = std::move(build);
  return model;
}

namespace {

namespace fs = std::filesystem;

/// The shared library that this function is in; empty if it is in the program itself.
fs::path own_library() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto here = reinterpret_cast<void*>(&own_library);
  if (::dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || !map) return {};
  std::error_code error;
  return fs::canonical(map->l_name, error);  // the program's name is empty there
}

/// The headers that were installed together with this program or library, wherever they have been moved; empty if there
/// are none.
std::string installed_headers() {
  std::error_code error;
  const fs::path library = own_library();
  // PREFIX/lib/libhetsynth.so and PREFIX/bin/hetsynth.
  const fs::path folder =
      library.empty() ? fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib/hetsynth/include"
                      : library.parent_path() / "hetsynth/include";
  return fs::is_regular_file(folder / "hetsynth/hetsynth.h", error) ? folder.string() : "";
}

}  // namespace

std::vector<std::string> dsl_include_directories() {
  const char* given = std::getenv("HETSYNTH_INCLUDE_DIRS");
  if (!given || !*given)
    if (const std::string installed = installed_headers(); !installed.empty()) return {installed};
  std::istringstream list(given && *given ? given : HETSYNTH_DSL_INCLUDE_DIRS);
  std::vector<std::string> directories;
  for (std::string directory; std::getline(list, directory, ':');)
    if (!directory.empty()) directories.push_back(directory);
  return directories;
}

}  // namespace hetsynth
