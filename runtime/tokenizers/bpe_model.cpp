#include "runtime/tokenizers/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "dsl/base/error.h"
#include "runtime/tokenizers/byte_letters.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

/// Up to here looking at all pairs again after a merge is faster than a queue.
constexpr size_t few_letters = 48;

}  // namespace

PairTable::PairTable(size_t pairs) {
  size_t slots = 16;
  while (slots < 2 * pairs) slots *= 2;
  slots_.resize(slots);
  mask_ = slots - 1;
}

void PairTable::set(int32_t left, int32_t right, MergeRule rule) {
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  while (slots_[at].key != none && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, rule};
}

BpeModel::BpeModel(BpeSettings settings) : settings_(std::move(settings)), pairs_(settings_.merges.size()) {
  int32_t greatest = -1;
  for (const auto& [token, id] : settings_.vocabulary) greatest = std::max(greatest, id);
  tokens_.resize(static_cast<size_t>(greatest) + 1);
  for (const auto& [token, id] : settings_.vocabulary) tokens_[static_cast<size_t>(id)] = token;

  for (size_t rank = 0; rank < settings_.merges.size(); ++rank) {
    const auto& [left, right] = settings_.merges[rank];
    const std::string made =
        left + (right.starts_with(settings_.prefix) ? right.substr(settings_.prefix.size()) : right);
    for (const std::string& token : {left, right, made}) {
      if (!settings_.vocabulary.contains(token)) throw MergeFlaw{rank, token};
    }
    pairs_.set(*id_of(left), *id_of(right), {static_cast<int32_t>(rank), *id_of(made)});
  }
  if (!settings_.unknown.empty()) {
    HETSYNTH_CHECK(id_of(settings_.unknown), "the unknown token is in the vocabulary");
    unknown_ = *id_of(settings_.unknown);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string letter;
    unicode::append(letter, byte_letter(static_cast<unsigned char>(byte)));
    for (unsigned place = 0; place < 4; ++place) byte_ids_[place][byte] = letter_id(letter, place & 1, place & 2);
    fallback_[byte] = id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  if (!settings_.byte_level || !settings_.ignore_merges) return;
  for (const auto& [token, id] : settings_.vocabulary) {
    if (std::optional<std::string> bytes = bytes_of_letters(token)) whole_.emplace(std::move(*bytes), id);
  }
}

std::optional<int32_t> BpeModel::id_of(std::string_view token) const {
  const auto found = settings_.vocabulary.find(token);
  if (found == settings_.vocabulary.end()) return {};
  return found->second;
}

const std::string& BpeModel::token(int32_t id) const {
  static const std::string none;
  return id < 0 || static_cast<size_t>(id) >= tokens_.size() ? none : tokens_[static_cast<size_t>(id)];
}

int32_t BpeModel::letter_id(std::string_view letter, bool first, bool last) const {
  if ((first || settings_.prefix.empty()) && (!last || settings_.suffix.empty())) return id_of(letter).value_or(-1);
  return id_of((first ? "" : settings_.prefix) + std::string(letter) + (last ? settings_.suffix : "")).value_or(-1);
}

/// The order in which unknown letters and bytes that stand in for letters come is that of PyPI's tokenizers: an unknown
/// token waits for the next letter that is none.
void BpeModel::letters_of(std::string_view word, std::vector<int32_t>& ids) const {
  bool unknown_waits = false;
  for (size_t at = 0; at < word.size();) {
    const size_t bytes = settings_.byte_level ? 1 : unicode::sequence_bytes(word[at]);
    const bool first = at == 0, last = at + bytes == word.size();
    const std::string_view letter = word.substr(at, bytes);
    at += bytes;
    const int32_t id = settings_.byte_level
                           ? byte_ids_[(first ? 1 : 0) + (last ? 2 : 0)][static_cast<unsigned char>(letter[0])]
                           : letter_id(letter, first, last);
    if (id >= 0) {
      if (unknown_waits) ids.push_back(unknown_);
      unknown_waits = false;
      ids.push_back(id);
      continue;
    }
    if (settings_.byte_fallback) {
      const std::string spelled =
          (first ? "" : settings_.prefix) + std::string(letter) + (last ? settings_.suffix : "");
      const auto fallback = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
      if (std::ranges::all_of(spelled, [&](char byte) { return fallback(byte) >= 0; })) {
        for (const char byte : spelled) ids.push_back(fallback(byte));
        continue;
      }
    }
    if (unknown_ < 0) continue;
    if (unknown_waits && !settings_.fuse_unknown) ids.push_back(unknown_);
    unknown_waits = true;
  }
  if (unknown_waits) ids.push_back(unknown_);
}

void BpeModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (settings_.ignore_merges) {
    const Vocabulary& words = settings_.byte_level ? whole_ : settings_.vocabulary;
    if (const auto found = words.find(word); found != words.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  const size_t begin = ids.size();
  letters_of(word, ids);
  if (ids.size() - begin < 2) return;
  if (ids.size() - begin <= few_letters) {
    merge_few(ids, begin);
  } else {
    merge_many(ids, begin);
  }
}

void BpeModel::merge_few(std::vector<int32_t>& ids, size_t begin) const {
  int32_t* const tokens = ids.data() + begin;
  size_t count = ids.size() - begin;
  std::array<MergeRule, few_letters> rules;  // of each token and the next
  for (size_t i = 0; i + 1 < count; ++i) rules[i] = pairs_.find(tokens[i], tokens[i + 1]);
  for (;;) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (rules[i].rank >= 0 && (best == count || rules[i].rank < rules[best].rank)) best = i;
    }
    if (best == count) break;
    tokens[best] = rules[best].made;
    std::copy(tokens + best + 2, tokens + count, tokens + best + 1);
    --count;
    if (best + 1 < count) std::copy(rules.begin() + best + 2, rules.begin() + count, rules.begin() + best + 1);
    if (best > 0) rules[best - 1] = pairs_.find(tokens[best - 1], tokens[best]);
    if (best + 1 < count) rules[best] = pairs_.find(tokens[best], tokens[best + 1]);
  }
  ids.resize(begin + count);
}

/// Of n tokens in n log n steps: a queue of merges, the leftmost of equals first.
void BpeModel::merge_many(std::vector<int32_t>& ids, size_t begin) const {
  struct Token {
    int32_t id;
    int64_t before, after;  ///< places of the neighbours; -1: none
  };
  struct Merge {
    int32_t rank;
    int64_t place;
    int32_t left, right;
    bool operator>(const Merge& other) const { return rank != other.rank ? rank > other.rank : place > other.place; }
  };
  const auto count = static_cast<int64_t>(ids.size() - begin);
  std::vector<Token> tokens(static_cast<size_t>(count));
  const auto at = [&](int64_t place) -> Token& { return tokens[static_cast<size_t>(place)]; };
  for (int64_t i = 0; i < count; ++i) at(i) = {ids[begin + static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
  std::priority_queue<Merge, std::vector<Merge>, std::greater<>> queue;
  const auto offer = [&](int64_t place) {
    if (place < 0 || at(place).after < 0) return;
    const int32_t left = at(place).id, right = at(at(place).after).id;
    if (const MergeRule rule = pairs_.find(left, right); rule.rank >= 0) queue.push({rule.rank, place, left, right});
  };
  for (int64_t i = 0; i + 1 < count; ++i) offer(i);
  while (!queue.empty()) {
    const Merge merge = queue.top();
    queue.pop();
    Token& left = at(merge.place);
    // Either of the two may have been merged with others since.
    if (left.id != merge.left || left.after < 0 || at(left.after).id != merge.right) continue;
    Token& right = at(left.after);
    left.id = pairs_.find(merge.left, merge.right).made;
    right.id = -1;
    left.after = right.after;
    if (left.after >= 0) at(left.after).before = merge.place;
    offer(left.before);
    offer(merge.place);
  }
  ids.resize(begin);
  for (int64_t i = 0; i >= 0; i = at(i).after) ids.push_back(at(i).id);
}

}  // namespace hetsynth
