// Certificates: what they say, that they check in place of a proof, and that changed ones are refused.
#include "verify/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/hash.h"
#include "tests/support/plan_builder.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

struct Proof {
  Program reference = two_layers();
  SpmdProgram plan = data_parallel(reference);
  Certificate certificate = make_certificate(reference, plan, verify(reference, plan));
  std::string json = certificate_to_json(certificate);
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::invalid_input);
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

TEST(CertificateTest, StatesScopeHashesAndObligations) {
  Proof p;
  EXPECT_FALSE(p.certificate.scope.empty());
  EXPECT_THAT(p.json, HasSubstr("arithmetic is that of the real numbers"));
  EXPECT_THAT(p.json, HasSubstr("\"solver\": \"Z3"));
  EXPECT_EQ(p.certificate.model_hash, hash_text(p.reference));
  EXPECT_GT(p.certificate.obligations.size(), 5u);
  int instructions = 0;
  for (const ProvedObligation& o : p.certificate.obligations) {
    EXPECT_GT(o.queries, 0);
    EXPECT_FALSE(o.first.empty());
    instructions += o.instructions;
  }
  int computes = 0;
  for (const Instruction& i : p.plan.instructions) computes += i.opcode == Opcode::compute;
  EXPECT_EQ(instructions, computes);
  EXPECT_FALSE(p.certificate.lemmas.empty());
}

TEST(CertificateTest, ComesBackTheSameAndChecksWithoutTheSolver) {
  Proof p;
  Certificate back = certificate_from_json(p.json, "cert.json");
  EXPECT_EQ(certificate_to_json(back), p.json);
  Verification v = recheck(back, "cert.json", p.reference, p.plan);
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary;
  for (const ProvedObligation& o : v.proofs) EXPECT_EQ(o.queries, 0);
}

TEST(CertificateTest, ChangedOnesAreRefused) {
  Proof p;
  const std::string& hash = p.certificate.obligations[0].hash;
  std::string other = hash;
  other[0] = other[0] == '0' ? '1' : '0';
  for (const std::string& text : {replaced(p.json, hash, other), replaced(p.json, p.certificate.plan_hash, other),
                                  replaced(p.json, "real numbers", "float numbers")})
    EXPECT_THAT(refusal([&] { certificate_from_json(text, "cert.json"); }), HasSubstr("was changed after it was made"));
  EXPECT_THAT(refusal([&] {
                certificate_from_json(replaced(p.json, "\"verdict\": \"proved\"", "\"verdict\": \"unknown\""), "c");
              }),
              HasSubstr("the result is not a proof"));
  EXPECT_THAT(refusal([&] { certificate_from_json(p.json.substr(0, p.json.size() / 2), "c"); }),
              HasSubstr("certificate"));
  EXPECT_THAT(refusal([&] { certificate_from_json(std::string(1 << 20, '['), "c"); }), HasSubstr("certificate"));
}

/// Whatever a plan decides changes the hash that its certificate is for.
TEST(CertificateTest, IsOfTablesByGroupStagesAndCarries) {
  const Proof p;
  SpmdProgram plan = p.plan;
  plan.mesh.axes.push_back({"pp", 2});
  plan.tables.push_back({"rows", 0, 8, {}, 1, {{0, 3, 8}, {0, 6, 8}}});
  for (Value& value : plan.values) value.placements.push_back(Placement::stage(0));
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::compute) i.splits.push_back(Split::on_stage(0));
  Instruction send;
  send.opcode = Opcode::send;
  send.to = 1;
  plan.instructions.push_back(send);
  plan.carried.push_back({0, 0});
  const auto differs = [&](auto change) {
    SpmdProgram other = plan;
    change(other);
    EXPECT_FALSE(other == plan);
    EXPECT_NE(program_hash(other), program_hash(plan));
  };
  differs([](SpmdProgram& q) { q.tables.back().rows[1][1] = 5; });
  differs([](SpmdProgram& q) { q.tables.back().by = 0; });
  differs([](SpmdProgram& q) { q.values[0].placements.back().at = 1; });
  differs([](SpmdProgram& q) { q.instructions[0].splits.back().stage = 1; });
  differs([](SpmdProgram& q) { q.instructions.back().to = 0; });
  differs([](SpmdProgram& q) { q.carried[0].second = 1; });
}

/// Even a certificate whose seal was made anew proves nothing that it does not list.
TEST(CertificateTest, ResealedLiesAreFound) {
  Proof p;
  Certificate forged = p.certificate;
  forged.obligations.erase(forged.obligations.begin());
  Verification v = recheck(forged, "cert.json", p.reference, p.plan);
  EXPECT_EQ(v.verdict, Verdict::unknown);
  EXPECT_THAT(v.summary, HasSubstr("the certificate has no proof of what"));
  forged = p.certificate;
  forged.lemmas.clear();
  v = recheck(forged, "cert.json", p.reference, p.plan);
  EXPECT_EQ(v.verdict, Verdict::unknown);
  EXPECT_THAT(v.summary, HasSubstr("the certificate has no proof of the lemma"));
  // A wrong plan under the right plan's certificate: what it needs is not in the list, or no rule applies.
  SpmdProgram wrong = p.plan;
  drop(wrong, find(wrong, p.reference, Opcode::all_reduce, "d_w1"));
  forged = p.certificate;
  forged.plan_hash = program_hash(wrong);
  EXPECT_EQ(recheck(forged, "cert.json", p.reference, wrong).verdict, Verdict::refuted);
}

TEST(CertificateTest, IsOfOneModelPlanToolAndSolver) {
  Proof p;
  SpmdProgram other = p.plan;
  other.tables[0].bounds = {0, 4, 8};
  EXPECT_THAT(refusal([&] { recheck(p.certificate, "c", p.reference, other); }), HasSubstr("is of another plan"));
  Program larger = two_layers(16);
  EXPECT_THAT(refusal([&] { recheck(p.certificate, "c", larger, p.plan); }), HasSubstr("is of another model"));
  Certificate old = p.certificate;
  old.tool = "0.0.1";
  EXPECT_THAT(refusal([&] { recheck(old, "c", p.reference, p.plan); }), HasSubstr("another version of the tool"));
  old = p.certificate;
  old.solver = "Z3 1.0";
  EXPECT_THAT(refusal([&] { recheck(old, "c", p.reference, p.plan); }), HasSubstr("another solver"));
  old = p.certificate;
  old.lemmas[0].hash = "0";
  EXPECT_THAT(refusal([&] { recheck(old, "c", p.reference, p.plan); }), HasSubstr("is not the one that was proved"));
}

/// Every field of a plan counts.
TEST(CertificateTest, TheHashOfAPlanMissesNothing) {
  Proof p;
  std::set<std::string> hashes{program_hash(p.plan)};
  auto add = [&](const std::function<void(SpmdProgram&)>& change) {
    SpmdProgram plan = p.plan;
    change(plan);
    EXPECT_TRUE(hashes.insert(program_hash(plan)).second);
  };
  int reduce = find(p.plan, p.reference, Opcode::all_reduce, "d_w1"),
      made = find(p.plan, p.reference, Opcode::compute, "h");
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].axis = 1; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].root = 1; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].reduce = ReduceOp::max; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].dim = 1; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].table = 0; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].to_dim = 1; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].to_table = 0; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].realisation = Realisation::padded; });
  add([&](SpmdProgram& s) { s.instructions[size_t(reduce)].opcode = Opcode::broadcast; });
  add([&](SpmdProgram& s) {
    std::swap(s.instructions[size_t(made)].operands[0], s.instructions[size_t(made)].operands[1]);
  });
  add([&](SpmdProgram& s) { s.instructions[size_t(made)].splits = {{}}; });
  add([&](SpmdProgram& s) { s.tables[0].bounds[1] = 4; });
  add([&](SpmdProgram& s) { s.mesh.axes[0].size = 3; });
  add([&](SpmdProgram& s) { s.values[0].placements = {{}}; });
  add([&](SpmdProgram& s) { s.values[0].node = 1; });
  add([&](SpmdProgram& s) { s.leaves.pop_back(); });
  add([&](SpmdProgram& s) { s.finals.pop_back(); });
  add([&](SpmdProgram& s) { s.loss = -1; });
}

}  // namespace
}  // namespace hetsynth
