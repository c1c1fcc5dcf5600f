// A folder with a model and a cluster for tests of the interface, which share one cache with those of the command line.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "hetsynth/api.h"
#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() { ::setenv("HETSYNTH_CACHE_DIR", HETSYNTH_BINARY_DIR "/test-cache", 1); }
  std::string path(const std::string& name) const { return (place.folder() / name).string(); }
  api::Model model(const api::Settings& settings = {}) const {
    return api::Model::from_file(path("model.cpp"), settings);
  }
  api::Cluster cluster() const { return api::Cluster::from_file(path("c.toml")); }
  api::Plan plan() const { return api::plan(model(), cluster()); }
  const Workplace place;
};

/// The words of the error that `work` throws, and its code as "[3] ...".
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const api::Error& error) {
    return "[" + std::to_string(error.code()) + "] " + error.what();
  }
  return "no error";
}

}  // namespace hetsynth::testing
