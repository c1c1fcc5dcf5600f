// Checked reading of TOML tables: every message names file, line and table. Internal to the cluster file's reader:
// toml++ types stand here.
#pragma once
#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/cluster/quantity.h"

namespace hetsynth {

/// Closed range of values that make sense.
struct ValueLimits {
  double low, high;
};

/// One table of the file. Getters throw UserError for a wrong type or a value out of range; what a key's absence means
/// is the caller's.
class TableReader {
 public:
  /// Throws UserError for a key that is not in `keys`. `tag` is the table's path: "host[1].device[0]".
  TableReader(const toml::table& table, const std::string& file, std::string tag, const std::vector<std::string>& keys);

  [[noreturn]] void fail(const SourceLocation& where, std::string message, std::string expected, std::string found,
                         std::string mend) const;
  SourceLocation where() const { return where(table_); }
  SourceLocation where(std::string_view key) const;
  bool has(std::string_view key) const { return table_.contains(key); }

  /// 1 to 200 printable bytes.
  std::string text(std::string_view key, const std::string& otherwise) const;
  /// An array of strings; nullopt if it is not there.
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// How often an entry is repeated: 1 to max_cluster_devices, 1 if not said.
  int count(std::string_view key) const;
  double number(std::string_view key, ValueLimits limits, double otherwise) const;
  /// A string with a unit or a plain number of base units, in base units.
  std::optional<double> quantity(std::string_view key, Dimension dimension, ValueLimits limits) const;
  std::optional<TableReader> table(std::string_view key, const std::vector<std::string>& keys) const;
  std::vector<TableReader> tables(std::string_view key, const std::vector<std::string>& keys) const;

 private:
  SourceLocation where(const toml::node& node) const;
  [[noreturn]] void wrong_type(std::string_view key, const toml::node& node, std::string expected) const;
  double plain_number(std::string_view key, const toml::node& node, const std::string& expected) const;

  const toml::table& table_;
  const std::string& file_;
  std::string tag_;
};

}  // namespace hetsynth
