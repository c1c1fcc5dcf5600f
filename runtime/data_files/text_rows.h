// Lines of a text file by number.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/data_file.h"

namespace hetsynth {

/// Which lines a file may have. Of files that are not kept in memory an index of 8 bytes a mark is.
struct RowLimits {
  int64_t rows_per_mark = 16;
  int64_t longest_mark = int64_t{1} << 20;      ///< bytes of so many lines
  int64_t resident_bytes = int64_t{256} << 20;  ///< larger files are read as they are needed
};

/// The lines of a file that stays as it is. Const members may be called by several threads at once.
class TextRows {
 public:
  /// Throws UserError for lines that are too long. Empty lines at the end of the file are none.
  TextRows(DataFile file, const RowLimits& limits);

  int64_t count() const { return rows_; }
  const DataFile& file() const { return file_; }
  /// Row `row` from 0 on, without its end of line. `buffer` holds the text if it has to be read.
  std::string_view row(int64_t row, std::string& buffer) const;

 private:
  std::string_view part(int64_t begin, int64_t end, std::string& buffer) const;
  void find_end();
  void index();
  void add_row(int64_t start);
  void check_mark(int64_t end) const;

  DataFile file_;
  const RowLimits limits_;
  int64_t end_ = 0;  ///< byte behind the last line that is not empty
  std::string resident_;
  std::vector<int64_t> marks_;  ///< byte where row i * rows_per_mark begins, and the end of the file
  int64_t rows_ = 0;
};

}  // namespace hetsynth
