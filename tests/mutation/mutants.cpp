#include "tests/mutation/mutants.h"

#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

std::vector<Kind> catalogue() {
  std::vector<Kind> out;
  for (const auto& family :
       {wrong_movements(), wrong_computations(), wrong_structure(), wrong_stages(), wrong_halos(), rewrites()})
    out.insert(out.end(), family.begin(), family.end());
  return out;
}

}  // namespace

void each_mutant(const Program& reference, const SpmdProgram& plan, const std::function<bool(Mutant)>& take,
                 const Places& places) {
  Workshop workshop(reference, plan, take, places);
  for (const Kind& kind : catalogue()) {
    if (workshop.stopped()) return;
    workshop.begin(kind.name);
    kind.apply(workshop);
  }
}

std::vector<std::string> kinds() {
  std::vector<std::string> out;
  for (const Kind& kind : catalogue()) out.emplace_back(kind.name);
  return out;
}

}  // namespace hetsynth::mutation
