#include "dsl/jit/clang_session.h"

#include <clang/Basic/DiagnosticOptions.h>
#include <clang/Basic/Stack.h>
#include <clang/Driver/Compilation.h>
#include <clang/Driver/Driver.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Frontend/Utils.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>

namespace hetsynth {
namespace {

/// Prints diagnostics as clang does, into a string, and keeps them structured as well.
class CapturedDiagnostics : public clang::DiagnosticConsumer {
 public:
  CapturedDiagnostics(clang::DiagnosticOptions* options, CompileResult& result)
      : result_(result), stream_(result.text), printer_(stream_, options) {
    if (options->ShowColors) stream_.enable_colors(true);
  }
  void BeginSourceFile(const clang::LangOptions& language, const clang::Preprocessor* preprocessor) override {
    printer_.BeginSourceFile(language, preprocessor);
  }
  void EndSourceFile() override { printer_.EndSourceFile(); }
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    printer_.HandleDiagnostic(level, info);
    CompileMessage message;
    message.severity = level >= clang::DiagnosticsEngine::Error     ? Severity::error
                       : level == clang::DiagnosticsEngine::Warning ? Severity::warning
                       : level == clang::DiagnosticsEngine::Remark  ? Severity::remark
                                                                    : Severity::note;
    if (info.hasSourceManager() && info.getLocation().isValid()) {
      clang::PresumedLoc place = info.getSourceManager().getPresumedLoc(info.getLocation());
      if (place.isValid()) message.where = {place.getFilename(), int(place.getLine()), int(place.getColumn())};
    }
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    message.text = text.str();
    result_.messages.push_back(std::move(message));
  }

 private:
  CompileResult& result_;
  llvm::raw_string_ostream stream_;
  clang::TextDiagnosticPrinter printer_;
};

/// Names of all files read besides the text itself, system headers included.
class AllDependencies : public clang::DependencyCollector {
 public:
  bool needSystemDependencies() override { return true; }
};

/// What is said of a file that is none, beside its name.
class NoFile : public std::error_category {
 public:
  const char* name() const noexcept override { return "no file"; }
  std::string message(int) const override { return "it is a pipe, a socket or a device, and no file"; }
};

/// The files of this machine without pipes, sockets and devices: whoever opens a pipe to read it waits for a writer.
class FilesAlone : public llvm::vfs::ProxyFileSystem {
 public:
  FilesAlone() : ProxyFileSystem(llvm::vfs::getRealFileSystem()) {}
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine& path) override {
    static const NoFile no_file;
    if (const llvm::ErrorOr<llvm::vfs::Status> status = ProxyFileSystem::status(path);
        status && !status->isRegularFile() && !status->isDirectory())
      return std::error_code(1, no_file);
    return ProxyFileSystem::openFileForRead(path);
  }
};

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> file_system(std::string_view source, const CompileOptions& options) {
  auto memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  auto overlay = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(llvm::makeIntrusiveRefCnt<FilesAlone>());
  overlay->pushOverlay(memory);  // before files are added: this gives `memory` its working directory
  auto add = [&](const std::string& path, std::string_view text) {
    memory->addFileNoOwn(path, 0, llvm::MemoryBufferRef(llvm::StringRef(text.data(), text.size()), path));
  };
  add(options.file_name, source);
  for (const MemoryFile& file : options.files) add(file.path, file.text);
  return overlay;
}

std::vector<std::string> driver_arguments(const CompileOptions& options) {
  std::vector<std::string> arguments = {"clang++",
                                        "-c",
                                        "-xc++",
                                        "-std=c++20",
                                        "-fPIC",
                                        "-femulated-tls",
                                        "-Wno-unused-command-line-argument",
                                        "-O" + std::to_string(options.optimization)};
  if (!clang_resource_directory().empty()) {
    arguments.push_back("-resource-dir");
    arguments.push_back(clang_resource_directory());
  }
  // Of some processors Clang names two widths of AVX10 and then warns of it.
  if (options.native) arguments.insert(arguments.end(), {"-march=native", "-Wno-invalid-feature-combination"});
  if (options.debug_info) arguments.push_back("-g");
  for (const std::string& directory : options.include_directories) arguments.push_back("-I" + directory);
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  arguments.push_back(options.file_name);
  return arguments;
}

/// Arguments of the compiler proper, as clang++ would give them. Empty if the driver refuses, with diagnostics.
std::vector<std::string> frontend_arguments(const CompileOptions& options, clang::DiagnosticsEngine& diagnostics,
                                            llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files) {
  if (!options.frontend_arguments.empty()) return options.frontend_arguments;
  clang::driver::Driver driver("clang++", llvm::sys::getProcessTriple(), diagnostics, "hetsynth", files);
  driver.setCheckInputsExist(false);
  std::vector<std::string> arguments = driver_arguments(options);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::unique_ptr<clang::driver::Compilation> compilation(driver.BuildCompilation(pointers));
  if (!compilation || compilation->containsError() || compilation->getJobs().empty()) return {};
  const llvm::opt::ArgStringList& chosen = compilation->getJobs().begin()->getArguments();
  return {chosen.begin(), chosen.end()};
}

/// Null if the driver or the compiler refuses the options, with diagnostics.
std::shared_ptr<clang::CompilerInvocation> make_invocation(const CompileOptions& options,
                                                           clang::DiagnosticsEngine& diagnostics,
                                                           llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files) {
  const std::vector<std::string> arguments = frontend_arguments(options, diagnostics, files);
  if (arguments.empty()) return nullptr;
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, pointers, diagnostics, "clang++")) return nullptr;
  invocation->getFrontendOpts().DisableFree = false;  // we live on after the compilation
  invocation->getCodeGenOpts().DisableFree = false;
  invocation->getDiagnosticOpts().ShowColors = options.color;
  if (!options.precompiled_header.empty()) {
    invocation->getPreprocessorOpts().ImplicitPCHInclude = options.precompiled_header;
    // Its makers checked every header it was made of (dsl/frontend/precompiled_header.cpp).
    invocation->getPreprocessorOpts().DisablePCHOrModuleValidation = clang::DisableValidationForModuleKind::PCH;
  }
  return invocation;
}

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

}  // namespace

CompileResult run_clang(std::string_view source, const CompileOptions& options, clang::FrontendAction& action,
                        const std::function<void(clang::CompilerInstance&)>& prepare) {
  initialize_llvm();
  clang::noteBottomOfStack();  // deep recursion in the text continues on a fresh stack instead of overflowing this one
  CompileResult result;
  auto files = file_system(source, options);
  auto diagnostic_options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  diagnostic_options->ShowColors = options.color;
  CapturedDiagnostics captured(diagnostic_options.get(), result);
  clang::CompilerInstance instance;
  instance.setVerboseOutputStream(llvm::nulls());  // "1 error generated." goes there
  instance.createDiagnostics(&captured, /*ShouldOwnClient=*/false);
  {
    clang::DiagnosticsEngine engine(llvm::makeIntrusiveRefCnt<clang::DiagnosticIDs>(), diagnostic_options, &captured,
                                    false);
    auto invocation = make_invocation(options, engine, files);
    HETSYNTH_CHECK(invocation != nullptr, "clang refuses its arguments: " + result.text);
    instance.setInvocation(std::move(invocation));
  }
  instance.createDiagnostics(&captured, /*ShouldOwnClient=*/false);
  instance.createFileManager(files);
  auto dependencies = std::make_shared<AllDependencies>();
  instance.addDependencyCollector(dependencies);
  if (prepare) prepare(instance);
  result.ok = instance.ExecuteAction(action) && !instance.getDiagnostics().hasErrorOccurred();
  for (llvm::StringRef name : dependencies->getDependencies())
    if (name != options.file_name) result.dependencies.push_back(name.str());
  return result;
}

CompileResult run_clang_to_object(std::string_view source, const CompileOptions& options,
                                  clang::FrontendAction& action) {
  llvm::SmallVector<char, 0> object;
  CompileResult result = run_clang(source, options, action, [&](clang::CompilerInstance& instance) {
    instance.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  });
  if (result.ok) result.output.assign(object.begin(), object.end());
  return result;
}

}  // namespace hetsynth
