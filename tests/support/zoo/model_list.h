// The list of models: read from comments at the top of the examples, so that a model is one file. Tests and the table
// of docs/models.md walk it.
#pragma once
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::testing {

using Settings = std::map<std::string, std::string>;

/// One line of an example, with the fields behind the name in any order:
///     // Model: BERT-Base | 109482240 parameters without head. | size=base
/// The count is as it was published: exact, or rounded ("672M", "46.7B"). Parameters whose names start with what
/// follows "without" are not in it. Settings choose the published size. A line
///     // Tiny: layers=1 width=32
/// says how the model becomes small; without one it is size=tiny. An example with neither line is listed by its file's
/// name and small as it is.
struct ListedModel {
  std::string name;
  std::string file;  ///< path within examples/: "bert.cpp", "gallery/unet.cpp"
  Settings published;
  Settings tiny;
  bool first_of_file = false;
  std::string count_text;      ///< "109482240", "672M"; empty: nobody published one
  int64_t count = 0;           ///< that as a number
  int64_t count_rounding = 0;  ///< a unit of the last digit of a rounded count; 0 for exact ones
  std::string without;         ///< prefix of the parameters that the count leaves out; empty: it counts all

  std::string path() const;
  /// Parameters that the published count speaks of.
  int64_t counted_parameters(const Program& program) const;
};

void PrintTo(const ListedModel& model, std::ostream* out);

/// The models that a file's comments name. Throws std::runtime_error with the line for one that cannot be read.
std::vector<ListedModel> models_of(const std::string& file);
/// All models of examples/, by file name and then in the file's order.
std::vector<ListedModel> listed_models();
/// Returns the first model of every file, whose tiny size stands for all of that file.
std::vector<ListedModel> first_of_each_file();
/// Whether a step of the model can be taken in turns (dsl/transform/turns.h). Of the others, samples depend on each
/// other through statistics of the batch, or the model loops over time steps.
bool has_turns(const ListedModel& model);
/// Returns those of first_of_each_file that have turns.
std::vector<ListedModel> models_with_turns();
/// Those of these names; none: all. Throws std::runtime_error with a name that none of them has.
std::vector<ListedModel> listed_models(const std::set<std::string>& names);
/// The same of the models of examples/gallery, which are in no table of steps.
std::vector<ListedModel> gallery_models(const std::set<std::string>& names = {});

/// Samples of a step: the first extent of the inputs.
int64_t samples_per_step(const Program& program);

/// Arithmetic of the forward and backward pass for one sample, by iteration spaces and bodies: a loop that a table
/// lookup replaces counts once, exponentials and the like as 10, the optimizer is left out.
double flops_per_sample(const Program& program);

}  // namespace hetsynth::testing
