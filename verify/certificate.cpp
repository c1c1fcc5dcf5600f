#include "verify/certificate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "dsl/base/hash.h"
#include "dsl/base/json_tree.h"
#include "dsl/base/version.h"
#include "verify/solver/lemmas.h"

namespace hetsynth {
namespace {

/// 2: the rules of partial values, of axes of one device and of carries became theorems; those of before accepted some
/// wrong plans (docs/bugs.md).
constexpr int schema_version = 2;
constexpr JsonLimits limits{int64_t(16) << 20, 400'000, 8};

std::string quoted_list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) out += fmt::format("{}\n    {}", out.empty() ? "" : ",", json_quoted(t));
  return "[" + out + "\n  ]";
}

/// All but the seal, which is a hash of this text.
std::string sealed_text(const Certificate& c) {
  std::string out = "{\n";
  auto field = [&](const char* name, const std::string& value) {
    out += fmt::format("  \"{}\": {},\n", name, json_quoted(value));
  };
  out += fmt::format("  \"schema\": {},\n", schema_version);
  field("verdict", "proved");
  field("tool", c.tool);
  field("solver", c.solver);
  field("model_file", c.model_file);
  field("model_hash", c.model_hash);
  field("plan_hash", c.plan_hash);
  out += fmt::format("  \"scope\": {},\n", quoted_list(c.scope));
  out += "  \"obligations\": [";
  for (size_t i = 0; i < c.obligations.size(); ++i) {
    const ProvedObligation& o = c.obligations[i];
    out += fmt::format(
        "{}\n    {{\"hash\": {}, \"first\": {}, \"instructions\": {}, \"queries\": {}, \"result\": \"proved\"}}",
        i ? "," : "", json_quoted(o.hash), json_quoted(o.first), o.instructions, o.queries);
  }
  out += "\n  ],\n  \"lemmas\": [";
  for (size_t i = 0; i < c.lemmas.size(); ++i)
    out += fmt::format("{}\n    {{\"name\": {}, \"hash\": {}, \"result\": \"proved\"}}", i ? "," : "",
                       json_quoted(c.lemmas[i].name), json_quoted(c.lemmas[i].hash));
  return out + "\n  ],\n";
}

std::string seal_of(const Certificate& c) { return wide_content_hash(sealed_text(c)); }

std::vector<std::string> strings(const JsonReader& list) {
  std::vector<std::string> out;
  for (const JsonReader& item : list.elements()) out.push_back(item.string());
  return out;
}

void expect_proved(const JsonReader& item) {
  if (item.string() != "proved") item.fail("the result is not a proof", "\"proved\"", '"' + item.string() + '"');
}

[[noreturn]] void refuse(const std::string& file, const std::string& message, const std::string& expected,
                         const std::string& found) {
  throw UserError({.where = {file},
                   .tag = "certificate",
                   .message = message,
                   .expected = expected,
                   .found = found,
                   .mend = "verify the plan again: hetsynth verify MODEL PLAN -o CERTIFICATE"},
                  ExitCode::invalid_input);
}

std::string table_text(const BoundaryTable& t) {
  if (t.by < 0) return fmt::format("{}", fmt::join(t.bounds, ","));
  std::string out = fmt::format("by {}", t.by);
  for (const std::vector<int64_t>& row : t.rows) out += fmt::format(" [{}]", fmt::join(row, ","));
  return out;
}

std::string stage_text(int stage) { return stage < 0 ? "" : fmt::format("@{}", stage); }

}  // namespace

std::string program_hash(const SpmdProgram& p) {
  std::string out;
  for (const Mesh::Axis& axis : p.mesh.axes) out += fmt::format("axis {} {}\n", json_quoted(axis.name), axis.size);
  for (const BoundaryTable& t : p.tables)
    out += fmt::format("table {} {} {} {}\n", json_quoted(t.name), t.axis, t.extent, table_text(t));
  for (const Value& v : p.values) {
    out += fmt::format("value {}", v.node);
    for (const Placement& at : v.placements)
      out += fmt::format(" {} {} {} {}{}{}", int(at.kind), at.dim, at.table, int(at.reduce), stage_text(at.at),
                         at.overlaps() ? fmt::format("~{}~{}", at.before, at.after) : "");
    out += "\n";
  }
  if (!p.hosts.empty()) out += fmt::format("hosts {}\n", fmt::join(p.hosts, ","));
  out += fmt::format("leaves {}\n", fmt::join(p.leaves, ","));
  for (const Instruction& i : p.instructions) {
    out += fmt::format("{} {} {} {}", int(i.opcode), i.result, fmt::join(i.operands, ","), i.node);
    for (const Split& s : i.splits) out += fmt::format(" {}/{}{}", s.factor, s.table, stage_text(s.stage));
    out += fmt::format(" {} {} {} {} {} {} {} {}", i.axis, i.dim, i.table, i.to_dim, i.to_table, int(i.reduce),
                       int(i.realisation), i.root);
    if (i.opcode == Opcode::halo_exchange) out += fmt::format(" halo {} {}", i.before, i.after);
    out += i.opcode == Opcode::send ? fmt::format(" to {}\n", i.to) : "\n";
  }
  for (const auto& [carry, value] : p.carried) out += fmt::format("carried {} {}\n", carry, value);
  for (const auto& [target, value] : p.finals) out += fmt::format("final {} {}\n", target, value);
  for (const LoopSchedule& schedule : p.schedules) {
    out += fmt::format("schedule {} {}", schedule.loop, fmt::join(schedule.parts, ","));
    for (const auto& [part, turn] : schedule.order) out += fmt::format(" {}/{}", part, turn);
    out += "\n";
  }
  return wide_content_hash(out + fmt::format("loss {}", p.loss));
}

Certificate make_certificate(const Program& reference, const SpmdProgram& program, const Verification& v) {
  HETSYNTH_CHECK(v.verdict == Verdict::proved, "certificates are of proofs");
  Certificate out;
  out.tool = tool_version();
  out.solver = v.solver;
  out.model_file = reference.model_file;
  out.model_hash = hash_text(reference);
  out.plan_hash = program_hash(program);
  out.scope = v.assumptions;
  out.obligations = v.proofs;
  for (const std::string& name : v.lemma_names) out.lemmas.push_back({name, wide_content_hash(lemma_texts().at(name))});
  return out;
}

std::string certificate_to_json(const Certificate& certificate) {
  return sealed_text(certificate) + fmt::format("  \"seal\": {}\n}}\n", json_quoted(seal_of(certificate)));
}

Certificate certificate_from_json(std::string_view json, const std::string& file) {
  JsonNode tree = parse_json(json, file, "certificate", limits);
  JsonReader top(tree, file, "");
  top.check_members({"schema", "verdict", "tool", "solver", "model_file", "model_hash", "plan_hash", "scope",
                     "obligations", "lemmas", "seal"});
  const int64_t schema = top.member("schema").integer(0, 1'000'000);
  if (schema < schema_version)
    refuse(file, "the certificate was made by rules that accepted some wrong plans (docs/bugs.md)",
           fmt::format("schema {}", schema_version), fmt::format("schema {}", schema));
  if (schema != schema_version)
    top.member("schema").fail("certificates of this form are not known", std::to_string(schema_version),
                              std::to_string(schema));
  expect_proved(top.member("verdict"));
  Certificate out;
  out.tool = top.member("tool").string();
  out.solver = top.member("solver").string();
  out.model_file = top.member("model_file").string();
  out.model_hash = top.member("model_hash").string();
  out.plan_hash = top.member("plan_hash").string();
  out.scope = strings(top.member("scope"));
  for (const JsonReader& item : top.member("obligations").elements()) {
    item.check_members({"hash", "first", "instructions", "queries", "result"});
    expect_proved(item.member("result"));
    out.obligations.push_back({item.member("hash").string(), item.member("first").string(),
                               int(item.member("instructions").integer(0, 1'000'000'000)),
                               int(item.member("queries").integer(0, 1'000'000'000))});
  }
  for (const JsonReader& item : top.member("lemmas").elements()) {
    item.check_members({"name", "hash", "result"});
    expect_proved(item.member("result"));
    out.lemmas.push_back({item.member("name").string(), item.member("hash").string()});
  }
  if (std::string seal = top.member("seal").string(); seal != seal_of(out))
    refuse(file, "the certificate was changed after it was made", "the seal " + seal_of(out), seal);
  return out;
}

Verification recheck(const Certificate& certificate, const std::string& file, const Program& reference,
                     const SpmdProgram& program, const VerifyOptions& options) {
  if (certificate.tool != tool_version())
    refuse(file, "the certificate was made by another version of the tool", tool_version(), certificate.tool);
  if (certificate.solver != smt::solver_version())
    refuse(file, "the certificate was made with another solver", smt::solver_version(), certificate.solver);
  if (certificate.model_hash != hash_text(reference))
    refuse(file, "the certificate is of another model, or of the model with other options", hash_text(reference),
           certificate.model_hash);
  if (certificate.plan_hash != program_hash(program))
    refuse(file, "the certificate is of another plan", program_hash(program), certificate.plan_hash);
  ProofStore known;
  for (const ProvedObligation& o : certificate.obligations) known.obligations.insert(o.hash);
  for (const Certificate::Lemma& lemma : certificate.lemmas) {
    auto text = lemma_texts().find(lemma.name);
    if (text == lemma_texts().end() || wide_content_hash(text->second) != lemma.hash)
      refuse(file, "the lemma " + lemma.name + " is not the one that was proved", "the lemma of this version",
             lemma.hash);
    known.lemmas.insert(lemma.name);
  }
  VerifyOptions with_store = options;
  with_store.known = &known;
  return verify(reference, program, with_store);
}

}  // namespace hetsynth
