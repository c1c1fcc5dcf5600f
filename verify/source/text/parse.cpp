#include "verify/source/text/parse.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Lex/Lexer.h>
#include <fmt/format.h>

#include "dsl/jit/clang_session.h"
#include "verify/source/text/parse_statement.h"

namespace hetsynth::source {
namespace {

/// What the words of CUDA C++ stand for in a text that is parsed as C++ (cuda_words).
constexpr llvm::StringRef kernel_note = "kernel", threads_note = "threads ";

class Converter {
 public:
  Converter(clang::ASTContext& context, Unit& unit) : context_(context), unit_(unit) {}

  void file_level(const clang::Decl* decl) {
    if (auto* linkage = llvm::dyn_cast<clang::LinkageSpecDecl>(decl)) {
      for (const clang::Decl* inner : linkage->decls()) file_level(inner);
    } else if (auto* tmpl = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl)) {
      function(tmpl->getTemplatedDecl());
    } else if (auto* f = llvm::dyn_cast<clang::FunctionDecl>(decl)) {
      function(f);
    } else if (auto* variable = llvm::dyn_cast<clang::VarDecl>(decl)) {
      table(variable);
    } else if (auto* record = llvm::dyn_cast<clang::RecordDecl>(decl)) {
      if (!record->isCompleteDefinition()) return;
      if (record->getName() != "HetsynthContext")
        unit_.records[record->getNameAsString()] = written(record->getSourceRange());
      else
        for (const clang::FieldDecl* field : record->fields())
          unit_.context.push_back(field->getType().getAsString() + " " + field->getNameAsString());
    } else if (!llvm::isa<clang::TypedefDecl, clang::EnumDecl, clang::EmptyDecl>(decl)) {
      surprise(decl->getBeginLoc(), decl->getDeclKindName());
    }
  }

 private:
  int line(clang::SourceLocation at) const { return line_of(context_, at); }
  std::string written(clang::SourceRange range) const {
    return clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(range), context_.getSourceManager(),
                                       context_.getLangOpts())
        .str();
  }
  void surprise(clang::SourceLocation at, const std::string& what) {
    unit_.surprises.push_back(fmt::format("line {}: {}", line(at), what));
  }

  void function(const clang::FunctionDecl* decl) {
    Function out;
    out.name = decl->getNameAsString();
    out.line = line(decl->getBeginLoc());
    ExpressionParser expressions(context_);
    for (const clang::ParmVarDecl* parameter : decl->parameters()) {
      expressions.slot_of(parameter);
      Parameter p{parameter->getNameAsString(), type_of(parameter->getType()), false};
      if (parameter->getType()->isPointerType())
        p.writable = !parameter->getType()->getPointeeType().isConstQualified();
      out.parameters.push_back(p);
    }
    out.text = written(decl->getSourceRange());
    for (const clang::AnnotateAttr* note : decl->specific_attrs<clang::AnnotateAttr>()) {
      const llvm::StringRef text = note->getAnnotation();
      out.kernel = out.kernel || text == kernel_note;
      if (text.starts_with(threads_note)) text.drop_front(threads_note.size()).getAsInteger(10, out.most_threads);
    }
    if (decl->doesThisDeclarationHaveABody()) {
      out.defined = true;
      // launch is variadic, and known by its name.
      if (out.name != "launch") out.body = parse_body(decl->getBody(), expressions);
    }
    out.slots = expressions.names();
    auto [entry, fresh] = unit_.functions.insert({out.name, out});
    if (fresh) return;
    if (entry->second.defined && out.defined)
      surprise(decl->getBeginLoc(), fmt::format("{} is defined twice", out.name));
    else if (out.defined)
      entry->second = out;
  }

  void table(const clang::VarDecl* variable) {
    if (!variable->hasInit()) return;  // a declaration
    if (!variable->getType().isConstant(context_))
      return surprise(variable->getBeginLoc(), "the variable " + variable->getNameAsString());
    if (auto* list = llvm::dyn_cast<clang::InitListExpr>(variable->getInit()->IgnoreImplicit())) {
      if (strings(list, unit_.texts[variable->getNameAsString()])) return;
      unit_.texts.erase(variable->getNameAsString());
      std::vector<int64_t>& values = unit_.tables[variable->getNameAsString()];
      for (const clang::Expr* item : list->inits()) {
        clang::Expr::EvalResult value;
        if (!item->EvaluateAsInt(value, context_)) return void(unit_.tables.erase(variable->getNameAsString()));
        values.push_back(value.Val.getInt().getSExtValue());
      }
    } else {
      clang::Expr::EvalResult value;
      if (variable->getInit()->EvaluateAsInt(value, context_))
        unit_.tables[variable->getNameAsString()] = {value.Val.getInt().getSExtValue()};
    }
  }

  /// Whether they all are: strings, and a null pointer behind them.
  bool strings(const clang::InitListExpr* list, std::vector<std::string>& out) const {
    for (const clang::Expr* item : list->inits()) {
      if (auto* text = llvm::dyn_cast<clang::StringLiteral>(item->IgnoreImpCasts()))
        out.push_back(text->getString().str());
      else if (out.size() + 1 != list->getNumInits() || !item->getType()->isPointerType())
        return false;
    }
    return !out.empty();
  }

  clang::ASTContext& context_;
  Unit& unit_;
};

class Reader : public clang::ASTConsumer {
 public:
  explicit Reader(Unit& unit) : unit_(unit) {}
  void HandleTranslationUnit(clang::ASTContext& context) override {
    if (context.getDiagnostics().hasErrorOccurred()) return;
    Converter converter(context, unit_);
    for (const clang::Decl* decl : context.getTranslationUnitDecl()->decls())
      if (!decl->isImplicit()) converter.file_level(decl);
  }

 private:
  Unit& unit_;
};

class ReadAction : public clang::ASTFrontendAction {
 public:
  explicit ReadAction(Unit& unit) : unit_(unit) {}
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
    return std::make_unique<Reader>(unit_);
  }

 private:
  Unit& unit_;
};

}  // namespace

Unit parse(std::string_view text, const std::string& file_name) {
  Unit unit;
  ReadAction action(unit);
  CompileOptions options;
  options.file_name = file_name;
  options.optimization = 0;
  options.native = false;
  CompileResult result = run_clang(text, options, action);
  if (!result.ok) unit.errors = result.text.empty() ? "the text does not compile" : result.text;
  return unit;
}

}  // namespace hetsynth::source
