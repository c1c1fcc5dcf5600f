// hetsynth doctor: what is installed on this machine, what works, and how to mend what does not.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "dsl/frontend/model.h"
#include "runtime/doctor.h"
#include "verify/verify.h"

namespace hetsynth::cli {
namespace {

/// The folder that holds hetsynth/hetsynth.h; empty if none does.
std::string header_folder() {
  for (const std::string& folder : dsl_include_directories())
    if (std::filesystem::exists(std::filesystem::path(folder) / "hetsynth/hetsynth.h")) return folder;
  return "";
}

}  // namespace

Command add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto cluster_file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("doctor", "Tell what is installed on this machine and what works");
  command->add_flag("--json", *json, "Report as JSON");
  command->add_option("--cluster", *cluster_file, "Also tell what this machine lacks to run this cluster (TOML)")
      ->type_name("FILE");
  return [json, cluster_file]() {
    std::optional<Cluster> cluster;
    if (!cluster_file->empty()) cluster = load_cluster(*cluster_file);
    // An empty program needs no proof but tells which solver answers.
    std::vector<Finding> findings = examine({.solver = verify({}, {}).solver,
                                             .model_headers = header_folder(),
                                             .cluster = cluster ? &*cluster : nullptr,
                                             .backend = nullptr});
    fmt::print("{}", *json ? to_json(findings).dump(2) + "\n" : text(findings));
    return healthy(findings) ? ExitCode::done : ExitCode::failure;
  };
}

}  // namespace hetsynth::cli
