#include "runtime/data/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/binary_file.h"
#include "dsl/base/data_file.h"
#include "dsl/base/error.h"
#include "dsl/base/npy_header.h"
#include "dsl/base/suggest.h"
#include "runtime/data/data_parts.h"
#include "runtime/data_files/part_names.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

bool ends_with_any(const std::string& name, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings, [&](const std::string& ending) { return name.ends_with(ending); });
}

bool fills(const DataFormat& format, const Node& input) {
  return std::ranges::find(format.kinds, input.data.kind) != format.kinds.end();
}

/// "npy, idx or cifar10": formats that can fill all inputs.
std::string candidates(const std::vector<const Node*>& inputs) {
  std::string out;
  for (const DataFormat& format : data_formats()) {
    if (!std::ranges::all_of(inputs, [&](const Node* input) { return fills(format, *input); })) continue;
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", format.name, format.what);
  }
  return out.empty() ? "none: no format holds all inputs of this model" : out;
}

DataPath look_at(const std::string& path, std::vector<const Node*> inputs) {
  DataPath out;
  out.path = path;
  out.inputs = std::move(inputs);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw data_error(path, "no such file or folder", "", "", "name existing data with --data");
  }
  out.folder = fs::is_directory(status);
  if (!out.folder) {
    out.head = DataFile(path).head(64);
    return out;
  }
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error)) out.files.push_back(it->path().filename().string());
  }
  if (error) throw data_error(path, "the folder cannot be read: " + error.message());
  std::ranges::sort(out.files, part_before);
  return out;
}

/// What the user named: one file or folder, or those of a pattern.
std::vector<DataPath> look_at_parts(const std::string& path, const std::vector<const Node*>& inputs) {
  std::error_code error;
  if (!has_wildcard(path) || fs::exists(path, error)) return {look_at(path, inputs)};
  const std::vector<std::string> paths = paths_of_pattern(path);
  check_parts_are_whole(paths, path, path);
  std::vector<DataPath> out;
  for (const std::string& part : paths) out.push_back(look_at(part, inputs));
  return out;
}

const DataFormat* named_format(const std::string& path, size_t* prefix) {
  for (const DataFormat& format : data_formats()) {
    const std::string name = std::string(format.name) + ":";
    if (!path.starts_with(name)) continue;
    *prefix = name.size();
    return &format;
  }
  return nullptr;
}

const DataFormat& recognised_format(const DataPath& path) {
  for (const DataFormat& format : data_formats()) {
    if (format.recognise(path)) return format;
  }
  const std::span<const unsigned char> head = path.head;
  const auto kind = binary_kind({reinterpret_cast<const char*>(head.data()), head.size()});
  const bool packed = kind && kind->mend.starts_with("unpack");
  throw data_error(path.path, "the format of these data is not known", candidates(path.inputs),
                   path.folder ? fmt::format("a folder with {} files", path.files.size())
                               : "a file that begins with " + hex(head.first(std::min<size_t>(8, head.size()))),
                   packed ? kind->mend : "name the format before the data, as in --data idx:FOLDER");
}

void check_fills(const DataFormat& format, const std::string& path, const std::vector<const Node*>& inputs) {
  for (const Node* input : inputs) {
    if (fills(format, *input)) continue;
    UserError error = data_error(path, fmt::format("these data cannot fill input {}", input->name), candidates(inputs),
                                 fmt::format("{} ({})", format.name, format.what),
                                 "name data of another format, or leave --data out to train on synthetic samples");
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.notes.push_back({input->where, fmt::format("{} is asked for here", input->name), ""});
    throw UserError(std::move(diagnostic));
  }
}

}  // namespace

std::string DataPath::name() const { return folder ? path : fs::path(path).filename().string(); }
std::string DataPath::file(const std::string& name) const { return (fs::path(path) / name).string(); }

bool DataPath::has_file(const std::vector<std::string>& endings) const {
  if (!folder) return ends_with_any(path, endings);
  return std::ranges::any_of(files, [&](const std::string& name) { return ends_with_any(name, endings); });
}

std::vector<std::string> DataPath::series(const std::vector<std::string>& endings) const {
  std::vector<std::string> names, out;
  for (const std::string& name : files)
    if (ends_with_any(name, endings)) names.push_back(name);
  const bool one = !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return series_of(name) == series_of(names.front());
  });
  if (!one) {
    const std::string ending = endings.front();
    throw data_error(
        path, "it is not clear which file of the folder holds the data",
        fmt::format("one file that ends in {0}, or the numbered parts of one set, as x-00000-of-00008{0}", ending),
        names.empty() ? "none" : quoted_list(names),
        fmt::format("name the file itself with --data, or several with a pattern, as '{}' in quotation marks",
                    file("train-*" + ending)));
  }
  for (const std::string& name : names) out.push_back(file(name));
  return out;
}

bool DataPath::asks_only(std::initializer_list<DataSource::Kind> kinds) const {
  return std::ranges::all_of(
      inputs, [&](const Node* input) { return std::ranges::find(kinds, input->data.kind) != kinds.end(); });
}

std::span<const DataFormat> data_formats() {
  static const std::vector<DataFormat> formats = {
      npy_format(),      npz_format(), safetensors_format(), llmc_format(),   idx_format(),  cifar10_format(),
      cifar100_format(), csv_format(), jsonl_format(),       criteo_format(), text_format(),
  };
  return formats;
}

std::unique_ptr<TokenSequence> open_token_sequence(const std::string& path) {
  return begins_like_npy(DataFile(path).head(6)) ? open_npy_tokens(path) : open_llmc_tokens(path);
}

std::vector<const Node*> file_inputs(const Program& program) {
  std::vector<const Node*> out;
  for (const Node& node : program.nodes) {
    if (node.kind == NodeKind::input && node.data.files) out.push_back(&node);
  }
  return out;
}

std::unique_ptr<Dataset> open_dataset(const Program& program, const std::string& path) {
  size_t prefix = 0;
  const DataFormat* format = named_format(path, &prefix);
  std::vector<DataPath> parts = look_at_parts(path.substr(prefix), file_inputs(program));
  if (!format) format = &recognised_format(parts.front());
  check_fills(*format, path.substr(prefix), parts.front().inputs);
  return open_parts(*format, std::move(parts), path.substr(prefix));
}

std::unique_ptr<Dataset> open_text_data(const std::vector<const Node*>& inputs, const std::string& path) {
  size_t prefix = 0;
  const DataFormat* format = named_format(path, &prefix);
  if (format) check_fills(*format, path.substr(prefix), inputs);
  return open_parts(text_format(), look_at_parts(path.substr(prefix), inputs), path.substr(prefix));
}

}  // namespace hetsynth
