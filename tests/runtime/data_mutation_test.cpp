// Random damage to data files: a file is read or refused with a UserError, and nothing else.
#include <gtest/gtest.h>

#include <random>

#include "dsl/base/error.h"
#include "runtime/data/batch_source.h"
#include "tests/runtime/data_files.h"

namespace hetsynth {
namespace {

using testing::data_samples;
using testing::DataSample;
using testing::TemporaryFolder;

/// One or two changes of the kinds that readers of binary formats stumble over.
std::string damage(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random() % limit); };
  for (size_t changes = 1 + below(2); changes > 0; --changes) {
    // Headers are short: most changes go to the first 128 bytes.
    const size_t at = below(below(4) > 0 ? std::min<size_t>(bytes.size(), 128) : bytes.size());
    constexpr std::string_view extremes[] = {std::string_view("\xFF\xFF\xFF\xFF", 4),
                                             std::string_view("\0\0\0\0", 4),
                                             std::string_view("\x7F\xFF\xFF\xFF", 4),
                                             "9999999999999999999",
                                             "\t",
                                             "[",
                                             "]",
                                             "\"",
                                             ",",
                                             "\n"};
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(below(bytes.size() + 1));
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, 1 + below(16)));
        break;
      case 3:
        bytes.erase(at, 1 + below(8));
        break;
      case 4: {
        const std::string_view extreme = extremes[below(std::size(extremes))];
        if (at + extreme.size() <= bytes.size()) bytes.replace(at, extreme.size(), extreme);
        break;
      }
      default:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    }
  }
  return bytes;
}

TEST(DataMutation, DamagedFilesAreReadOrRefused) {
  constexpr uint64_t seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const DataSample& sample : data_samples()) {
    int read = 0, refused = 0;
    for (int mutant = 0; mutant < 200; ++mutant) {
      TemporaryFolder folder;  // a new one: some file systems wait for the disk when a file is cut and written anew
      const auto& [name, content] = sample.files[static_cast<size_t>(mutant) % sample.files.size()];
      const std::string path = (mutant % 2 ? sample.format + ":" : "") + write_sample(sample, folder);
      folder.write(name, damage(content, random));
      try {
        const auto data = open_data(sample.program, {path, 1});
        for (int64_t step = 0; step < 3; ++step) {
          for (const auto& [node, array] : whole_batch(sample.program, *data, step)) {
            const Node& input = sample.program[node];
            for (const double value : array.values) {
              ASSERT_TRUE(input.type.dtype == DType::i32 ? takes_whole(input.data, static_cast<int64_t>(value))
                                                         : takes_real(input.data, static_cast<float>(value)));
            }
          }
        }
        ++read;
      } catch (const UserError& error) {
        ++refused;
        ASSERT_TRUE(error.code() == ExitCode::invalid_input) << error.what();
      } catch (const std::exception& error) {
        FAIL() << sample.format << " mutant " << mutant << ": " << error.what();
      }
    }
    // Both must happen, or the damage is too weak or too strong to say anything.
    EXPECT_GT(read, 0) << sample.format;
    EXPECT_GT(refused, sample.format == "text" ? 0 : 25) << sample.format;
  }
}

}  // namespace
}  // namespace hetsynth
