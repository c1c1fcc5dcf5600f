// JSON with the place of every value: parsing that is safe on hostile input, and checked reading whose messages name
// file, line and path.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {

/// One value of a document. Members keep the file's order and are unique.
struct JsonNode {
  enum class Kind : uint8_t { null, boolean, integer, real, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  int line = 0;
  union {
    int64_t integer = 0;
    double real;  ///< also integers beyond 64 bits
  };
  std::string key;  ///< name of an object's member
  std::string string;
  std::vector<JsonNode> children;
};

/// Bounds that keep memory and stack in check whatever the text says.
struct JsonLimits {
  int64_t bytes = int64_t{64} << 20;
  int64_t values = 2'000'000;
  int depth = 32;
};

/// Parses a whole document. Throws UserError, tagged with `what` ("plan"), with line and column for: a syntax error,
/// bad UTF-8, a member that stands twice, a number out of range, a limit that is passed.
JsonNode parse_json(std::string_view text, const std::string& file, const std::string& what,
                    const JsonLimits& limits = {});

/// A value on its way to being read: knows its file and path. Getters throw UserError if the value is not what they are
/// asked for.
class JsonReader {
 public:
  JsonReader(const JsonNode& node, const std::string& file, std::string path)
      : node_(&node), file_(&file), path_(std::move(path)) {}

  [[noreturn]] void fail(std::string message, std::string expected = "", std::string found = "",
                         std::string mend = "") const;

  /// Throws for a member that is neither in `required` nor in `optional`, with a suggestion, and for one that is
  /// missing.
  void check_members(const std::vector<std::string>& required, const std::vector<std::string>& optional = {}) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  JsonReader member(std::string_view key) const;
  std::vector<JsonReader> members() const;
  std::vector<JsonReader> elements() const;
  const std::string& key() const { return node_->key; }

  const std::string& string() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;
  /// A finite number in [low, high].
  double number(double low, double high) const;
  bool is_null() const { return node_->kind == JsonNode::Kind::null; }
  bool is_string() const { return node_->kind == JsonNode::Kind::string; }
  bool is_array() const { return node_->kind == JsonNode::Kind::array; }

 private:
  const JsonNode* find(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string expected) const;

  const JsonNode* node_;
  const std::string* file_;
  std::string path_;
};

/// The text as a JSON string, quotes included; bytes that are not UTF-8 are replaced.
std::string json_quoted(std::string_view text);

}  // namespace hetsynth
