// Files that are parts (shards) of one set of data, by their names.
#pragma once
#include <string>
#include <vector>

namespace hetsynth {

/// Whether a path has what patterns have: *, ? or [.
bool has_wildcard(const std::string& path);

/// Files and folders that a pattern of the shell names, in the order of parts. Throws UserError if there are none.
std::vector<std::string> paths_of_pattern(const std::string& pattern);

/// The order of parts: by name, in which runs of digits are numbers, so that x-2 comes before x-10.
bool part_before(const std::string& a, const std::string& b);

/// What the names of all parts of one set have in common: "train-#.csv" of train-3.csv, "train-#-of-00008.csv" of
/// train-00003-of-00008.csv.
std::string series_of(const std::string& name);

/// What a part's name without its ending says of the whole: "tokens" of tokens-00003-of-00008, tokens_3, tokens.part-3.
/// Empty: it does not end in a number behind a sign.
std::string name_of_whole(const std::string& stem);

/// Throws UserError naming what is missing if some of the paths are parts of a set that says how many it has
/// ("-00003-of-00008") and others of them are not there, or if parts of two such sets are mixed. Parts that `pattern`
/// does not name, if it is not empty, are not missed: whoever names some of a set knows it. `named` is what the user
/// named.
void check_parts_are_whole(const std::vector<std::string>& paths, const std::string& named,
                           const std::string& pattern = "");

}  // namespace hetsynth
