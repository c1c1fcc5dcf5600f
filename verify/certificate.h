// A proof written down: what was proved of which model and plan, by what, and everything needed to check it again
// without searching for it again.
#pragma once
#include <string>
#include <vector>

#include "verify/verify.h"

namespace hetsynth {

/// Content hash of everything that a program's meaning depends on: instructions, tables, placements, mesh.
std::string program_hash(const SpmdProgram& program);

struct Certificate {
  std::string tool, solver;
  std::string model_file, model_hash, plan_hash;
  std::vector<std::string> scope;  ///< what is proved, and what it assumes
  std::vector<ProvedObligation> obligations;
  struct Lemma {
    std::string name, hash;
  };
  std::vector<Lemma> lemmas;
};

/// Expects a proved verification of this plan.
Certificate make_certificate(const Program& reference, const SpmdProgram& program, const Verification& verification);

/// JSON with a seal: a hash of the rest, so that a change by accident or by hand is seen.
std::string certificate_to_json(const Certificate& certificate);
/// Throws UserError (tag "certificate") for what is no certificate, and for one that was changed.
Certificate certificate_from_json(std::string_view json, const std::string& file);

/// Verifies the plan anew, taking from the certificate only the solver's answers: what every instruction needs proved
/// is inferred again, and must be among the obligations that the certificate lists. Throws UserError if the certificate
/// is of another model, plan or tool.
Verification recheck(const Certificate& certificate, const std::string& file, const Program& reference,
                     const SpmdProgram& program, const VerifyOptions& options = {});

}  // namespace hetsynth
