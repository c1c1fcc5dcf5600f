// Object files linked into the running process by LLVM ORC.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {

/// An object file needs symbols that neither it nor this process defines.
class LinkError : public InternalError {
 public:
  LinkError(const std::string& what, std::vector<std::string> symbols)
      : InternalError(what), symbols(std::move(symbols)) {}
  std::vector<std::string> symbols;  ///< as C++ shows them, sorted
};

/// Whether HETSYNTH_JIT_DEBUG=1 asks for code that gdb can step through: modules are made known to it, and compiled
/// with debug information from sources on disk. To be set before the first load.
bool debugger_requested();

/// A linked object file: its code lives as long as the last copy of this handle. Symbols resolve against `symbols`,
/// then against this process (executables are linked with their symbols exported). Static initialisers run when it is
/// loaded, destructors of static objects when it is unloaded; exceptions unwind through its frames; thread_local works.
class NativeModule {
 public:
  NativeModule() = default;
  /// Throws LinkError if symbols stay unresolved, InternalError if the bytes are no object file of this machine;
  /// exceptions of static initialisers pass through.
  static NativeModule load(std::string_view object, const std::string& name,
                           const std::map<std::string, void*>& symbols = {});

  /// Address of a symbol by its linker name, nullptr if the object does not define it.
  void* find(const std::string& symbol) const;
  /// The same as a function of type F; throws InternalError if it is absent.
  template <class F>
  F* function(const std::string& symbol) const {
    return reinterpret_cast<F*>(required(symbol));
  }
  bool loaded() const { return state_ != nullptr; }
  /// Keeps the code alive.
  std::shared_ptr<const void> owner() const { return state_; }

 private:
  struct State;
  void* required(const std::string& symbol) const;
  std::shared_ptr<State> state_;
};

}  // namespace hetsynth
