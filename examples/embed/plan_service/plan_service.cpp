// A service that plans. Every line of standard input is a request,
//   MODEL CLUSTER [NAME=VALUE...]
// and every line of standard output is its answer: a JSON object with the plan, or with "error". A model that was asked
// for before with the same settings is not compiled again.
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "hetsynth/api.h"

namespace api = hetsynth::api;

namespace {

std::string quoted(const std::string& text) {
  static const char* const digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\u00") + digits[c >> 4] + digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// JSON without its line breaks and what they are indented by; texts inside have none of their own.
std::string on_one_line(const std::string& json) {
  std::string out;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '\n') {
      out += json[i];
      continue;
    }
    while (i + 1 < json.size() && json[i + 1] == ' ') ++i;
  }
  return out;
}

class Service {
 public:
  std::string answer(const std::string& request) {
    std::istringstream words(request);
    std::string model, cluster;
    if (!(words >> model >> cluster)) return R"({"error": "a request is: MODEL CLUSTER [NAME=VALUE...]"})";
    api::Settings settings;
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) return "{\"error\": " + quoted("no NAME=VALUE: " + word) + "}";
      settings[word.substr(0, equals)] = word.substr(equals + 1);
    }
    try {
      const api::Plan plan = api::plan(find(model, settings), api::Cluster::from_file(cluster));
      return "{\"report\": " + on_one_line(plan.json()) + ", \"plan\": " + on_one_line(plan.document()) + "}";
    } catch (const api::Error& error) {
      return "{\"error\": " + quoted(error.what()) + ", \"code\": " + std::to_string(error.code()) + "}";
    }
  }

 private:
  const api::Model& find(const std::string& path, const api::Settings& settings) {
    const auto known = models_.find({path, settings});
    if (known != models_.end()) return known->second;
    return models_.emplace(std::pair(path, settings), api::Model::from_file(path, settings)).first->second;
  }

  std::map<std::pair<std::string, api::Settings>, api::Model> models_;
};

}  // namespace

int main() {
  Service service;
  for (std::string request; std::getline(std::cin, request);)
    if (!request.empty()) std::cout << service.answer(request) << std::endl;
}
