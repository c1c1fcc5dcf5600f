#include "dsl/jit/native_module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/ExecutionEngine/JITLink/EHFrameSupport.h>
#include <llvm/ExecutionEngine/Orc/Debugging/DebuggerSupport.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectFileInterface.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/DynamicLibrary.h>
#include <llvm/Support/TargetSelect.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace hetsynth {
namespace orc = llvm::orc;
namespace jitlink = llvm::jitlink;
namespace {

using InitFunction = void (*)();

/// Finds what an ELF object wants run at start. ORC's own platforms read IR or need compiler-rt's runtime; objects from
/// a cache have neither, and without this their static initialisers would silently never run.
class StaticInitializers : public orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(orc::MaterializationResponsibility& responsibility, jitlink::LinkGraph&,
                        jitlink::PassConfiguration& passes) override {
    orc::JITDylib* library = &responsibility.getTargetJITDylib();
    passes.PrePrunePasses.push_back([this, library](jitlink::LinkGraph& graph) {
      define_handle(*library, graph);
      for (jitlink::Section& section : graph.sections())
        if (section.getName().starts_with(".init_array"))
          for (jitlink::Block* block : section.blocks())
            graph.addAnonymousSymbol(*block, 0, block->getSize(), false, true);
      return llvm::Error::success();
    });
    passes.PostFixupPasses.push_back([this, library](jitlink::LinkGraph& graph) {
      record(*library, graph);
      return llvm::Error::success();
    });
  }
  /// The object's __dso_handle, which it passes to __cxa_atexit, will be the address of a pointer to `owner`.
  void set_owner(orc::JITDylib& library, void* owner) {
    std::lock_guard lock(mutex_);
    owners_[&library] = owner;
  }
  std::vector<InitFunction> take(orc::JITDylib& library) {
    std::lock_guard lock(mutex_);
    auto found = found_.find(&library);
    if (found == found_.end()) return {};
    std::vector<InitFunction> functions = std::move(found->second);
    found_.erase(found);
    return functions;
  }
  void forget(orc::JITDylib& library) {
    std::lock_guard lock(mutex_);
    found_.erase(&library);
    owners_.erase(&library);
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override { return llvm::Error::success(); }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}

 private:
  void record(orc::JITDylib& library, jitlink::LinkGraph& graph) {
    struct Entry {
      int priority;  // ".init_array.101" runs before ".init_array"
      orc::ExecutorAddr address;
      InitFunction function;
    };
    std::vector<Entry> entries;
    for (jitlink::Section& section : graph.sections()) {
      llvm::StringRef suffix = section.getName();
      if (!suffix.consume_front(".init_array")) continue;
      int priority = 65536;
      if (suffix.consume_front(".")) suffix.getAsInteger(10, priority);
      for (jitlink::Block* block : section.blocks()) {
        llvm::ArrayRef<char> content = block->getContent();
        for (size_t at = 0; at + sizeof(InitFunction) <= content.size(); at += sizeof(InitFunction)) {
          InitFunction function = nullptr;
          std::memcpy(&function, content.data() + at, sizeof function);
          if (function) entries.push_back({priority, block->getAddress() + at, function});
        }
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.priority, a.address) < std::tie(b.priority, b.address);
    });
    std::lock_guard lock(mutex_);
    for (const Entry& entry : entries) found_[&library].push_back(entry.function);
  }

  /// Compilers refer to __dso_handle as hidden, so it must lie beside the code.
  void define_handle(orc::JITDylib& library, jitlink::LinkGraph& graph) {
    jitlink::Symbol* handle = nullptr;
    for (jitlink::Symbol* symbol : graph.external_symbols())
      if (symbol->getName() == "__dso_handle") handle = symbol;
    if (!handle) return;
    std::lock_guard lock(mutex_);
    llvm::MutableArrayRef<char> content = graph.allocateBuffer(sizeof(void*));
    std::memcpy(content.data(), &owners_.at(&library), sizeof(void*));
    jitlink::Section& section = graph.createSection("hetsynth.handle", orc::MemProt::Read);
    jitlink::Block& block = graph.createContentBlock(section, content, orc::ExecutorAddr(), alignof(void*), 0);
    graph.makeDefined(*handle, block, 0, sizeof(void*), jitlink::Linkage::Strong, jitlink::Scope::Local, true);
  }

  std::mutex mutex_;
  std::map<orc::JITDylib*, std::vector<InitFunction>> found_;
  std::map<orc::JITDylib*, void*> owners_;
};

/// Why a lookup failed: ORC reports the cause apart from the lookup itself.
struct LookupFailure {
  std::string text;
  std::vector<std::string> missing;

  void add(llvm::Error error) {
    auto note = [&](const llvm::ErrorInfoBase& info) { text += (text.empty() ? "" : "; ") + info.message(); };
    llvm::handleAllErrors(
        std::move(error),
        [&](const orc::SymbolsNotFound& absent) {
          for (const orc::SymbolStringPtr& symbol : absent.getSymbols()) missing.push_back(llvm::demangle(*symbol));
          note(absent);
        },
        note);
    std::sort(missing.begin(), missing.end());
  }
};

template <class T>
T checked(llvm::Expected<T> value, const std::string& what) {
  if (value) return static_cast<T>(std::forward<T>(*value));
  throw InternalError(fmt::format("{}: {}", what, llvm::toString(value.takeError())));
}

void checked(llvm::Error error, const std::string& what) {
  if (error) throw InternalError(fmt::format("{}: {}", what, llvm::toString(std::move(error))));
}

/// One per process, shared by all modules; each module is a library of its own in it.
struct Engine {
  std::unique_ptr<orc::LLJIT> jit;
  StaticInitializers* initializers = nullptr;
  // One module links at a time: with several, ORC lets one thread link, and report the failures of, another's module.
  std::mutex linking;
  LookupFailure failure;

  Engine() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    orc::LLJITBuilder builder;
    // No IR platform: it would compile its own support module at start-up, and only serves modules added as IR.
    builder.setPlatformSetUp(orc::setUpInactivePlatform);
    jit = checked(builder.create(), "LLVM ORC cannot start");
    jit->getExecutionSession().setErrorReporter([this](llvm::Error error) { failure.add(std::move(error)); });
    auto plugin = std::make_unique<StaticInitializers>();
    initializers = plugin.get();
    auto* layer = llvm::dyn_cast<orc::ObjectLinkingLayer>(&jit->getObjLinkingLayer());
    HETSYNTH_CHECK(layer != nullptr, "ORC links with JITLink on this machine");
    layer->addPlugin(std::move(plugin));
    if (debugger_requested()) checked(orc::enableDebuggerSupport(*jit), "gdb cannot be told of compiled code");
    offer_own_library();
  }

  /// Names of the process do not include those of a library that was opened for whoever opened it alone (RTLD_LOCAL),
  /// as plugins are, nor of those that it is linked with; this code may be in one.
  void offer_own_library() {
    Dl_info own{};
    if (::dladdr(reinterpret_cast<const void*>(&debugger_requested), &own) == 0) return;
    void* const library = ::dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;  // it is in the program itself
    jit->getProcessSymbolsJITDylib()->addGenerator(std::make_unique<orc::DynamicLibrarySearchGenerator>(
        llvm::sys::DynamicLibrary(library), jit->getDataLayout().getGlobalPrefix()));
  }

  /// Kept by every module, so that modules in static objects outlive nothing they need.
  static std::shared_ptr<Engine> shared() {
    static std::shared_ptr<Engine> engine = std::make_shared<Engine>();
    return engine;
  }
};

}  // namespace

bool debugger_requested() {
  const char* value = std::getenv("HETSYNTH_JIT_DEBUG");
  return value && std::string_view(value) == "1";
}

struct NativeModule::State {
  std::shared_ptr<Engine> engine = Engine::shared();
  orc::JITDylib* library = nullptr;
  struct AtExit {
    void (*function)(void*);
    void* argument;
  };
  std::mutex mutex;
  std::vector<AtExit> at_exit;

  /// What the object's __cxa_atexit resolves to.
  static int register_at_exit(void (*function)(void*), void* argument, void* handle) {
    State* self = *static_cast<State**>(handle);
    std::lock_guard lock(self->mutex);
    self->at_exit.push_back({function, argument});
    return 0;
  }

  void define(const std::map<std::string, void*>& symbols) {
    orc::SymbolMap map;
    auto add = [&](const std::string& name, void* address) {
      map[engine->jit->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    };
    for (const auto& [name, address] : symbols) add(name, address);
    add("__cxa_atexit", reinterpret_cast<void*>(&register_at_exit));
    checked(library->define(orc::absoluteSymbols(std::move(map))), "symbols for compiled code");
  }

  /// Adds the object to a library of its own and resolves all that it defines.
  void link(std::string_view object, const std::string& name, const std::map<std::string, void*>& symbols) {
    static std::atomic<uint64_t> counter{0};
    orc::LLJIT& jit = *engine->jit;
    orc::ExecutionSession& session = jit.getExecutionSession();
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), name);
    auto interface =
        checked(orc::getObjectFileInterface(session, buffer->getMemBufferRef()), name + " is no object file");
    library = &checked(jit.createJITDylib(fmt::format("{}#{}", name, counter++)), "a library for compiled code");
    engine->initializers->set_owner(*library, this);
    define(symbols);
    checked(jit.addObjectFile(*library, std::move(buffer)), name);

    orc::SymbolLookupSet wanted;
    for (const auto& [symbol, flags] : interface.SymbolFlags)
      wanted.add(symbol, flags.hasMaterializationSideEffectsOnly() ? orc::SymbolLookupFlags::WeaklyReferencedSymbol
                                                                   : orc::SymbolLookupFlags::RequiredSymbol);
    std::lock_guard lock(engine->linking);
    engine->failure = {};
    auto found = session.lookup({{library, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
    if (found) return;
    engine->failure.add(found.takeError());
    std::string what = fmt::format("{} cannot be linked: {}", name, engine->failure.text);
    if (!engine->failure.missing.empty()) throw LinkError(what, engine->failure.missing);
    throw InternalError(what);
  }

  ~State() {
    while (!at_exit.empty()) {  // an exit function may register another
      AtExit last = at_exit.back();
      at_exit.pop_back();
      last.function(last.argument);
    }
    if (!library) return;
    engine->initializers->forget(*library);
    llvm::consumeError(engine->jit->getExecutionSession().removeJITDylib(*library));
  }
};

NativeModule NativeModule::load(std::string_view object, const std::string& name,
                                const std::map<std::string, void*>& symbols) {
  NativeModule module;
  module.state_ = std::make_shared<State>();
  module.state_->link(object, name, symbols);
  try {
    for (InitFunction function : module.state_->engine->initializers->take(*module.state_->library)) function();
  } catch (...) {
    // What was thrown may be of a type of the module's own, whose code must outlive the exception.
    static std::mutex mutex;
    static auto* kept = new std::vector<std::shared_ptr<State>>;
    std::lock_guard lock(mutex);
    kept->push_back(module.state_);
    throw;
  }
  return module;
}

void* NativeModule::find(const std::string& symbol) const {
  if (!state_) return nullptr;
  orc::LLJIT& jit = *state_->engine->jit;
  auto found = jit.getExecutionSession().lookup({{state_->library, orc::JITDylibLookupFlags::MatchExportedSymbolsOnly}},
                                                jit.mangleAndIntern(symbol));
  if (!found) {
    llvm::consumeError(found.takeError());
    return nullptr;
  }
  return found->getAddress().toPtr<void*>();
}

void* NativeModule::required(const std::string& symbol) const {
  void* address = find(symbol);
  HETSYNTH_CHECK(address != nullptr, "compiled code does not define " + symbol);
  return address;
}

}  // namespace hetsynth
