// hetsynth elastic: starts a run on the hosts of a cluster, and starts it again without those that were lost, with
// those that are back, and with those that join.
#include <filesystem>

#include "cli/pipeline_options.h"
#include "cli/supervisor.h"

namespace hetsynth::cli {

Command add_elastic(CLI::App& app) {
  auto options = std::make_shared<ElasticOptions>();
  CLI::App* command = app.add_subcommand(
      "elastic",
      "Train on the hosts of a cluster under mpirun, and go on from the last checkpoint without those that are lost, "
      "with those that are back and those that join; words after -- are for hetsynth run");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("--cluster", options->compilation.cluster_file, "Cluster file (TOML)")->required();
  command
      ->add_option("--hosts", options->hosts_file,
                   "Addresses of the cluster's hosts, one on a line in the order of the file; default: their names")
      ->type_name("FILE");
  command
      ->add_option("--without", options->compilation.without,
                   "Hosts or devices of the cluster file that are left out, until they ask to join (hetsynth join)")
      ->type_name("NAME");
  add_planning_options(*command, options->compilation);
  command->add_option("--steps", options->steps, "Training steps in all")->capture_default_str()->check(at_least(0));
  command->add_option("--checkpoint", options->checkpoint, "Where all hosts find the checkpoint")
      ->type_name("FILE")
      ->required();
  command->add_option("--checkpoint-every", options->checkpoint_every, "Steps between two checkpoints")
      ->capture_default_str()
      ->check(at_least(1));
  command->add_flag("--resume", options->resume, "Go on from the checkpoint that is there");
  command->add_option("--restarts", options->restarts, "How often to start again")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--alive", options->launcher.alive_command,
                   "Shell command that succeeds if the host {} is there; default: starts a process on it")
      ->type_name("COMMAND");
  command->add_option("--ask-every", options->ask_every, "Seconds between two questions whether a lost host is back")
      ->capture_default_str()
      ->check(above_zero());
  command->add_option("--launcher", options->launcher.program, "The program that starts processes")
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "Report as JSON, one object for each start of the run that ends by itself; all else goes to "
                    "standard error");
  command->add_option("more", options->more, "Words for hetsynth run, after --");
  return [options]() {
    if (std::filesystem::exists(options->checkpoint) && !options->resume)
      throw UserError({.where = {options->checkpoint},
                       .tag = "checkpoint",
                       .message = "a run that starts anew would go on from this checkpoint",
                       .mend = "give --resume to go on from it, or name another file"},
                      ExitCode::usage);
    return supervise(*options);
  };
}

}  // namespace hetsynth::cli
