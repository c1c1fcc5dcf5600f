#include "dsl/frontend/name_tensors.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Sema/Sema.h>
#include <clang/Sema/SemaConsumer.h>
#include <llvm/ADT/SmallPtrSet.h>

namespace hetsynth {
namespace {
using namespace clang;

/// Rewrites functions as they are parsed and instantiated, before code is generated for them.
class NamingConsumer : public SemaConsumer {
 public:
  void Initialize(ASTContext& context) override { context_ = &context; }
  void InitializeSema(Sema& sema) override { sema_ = &sema; }
  void ForgetSema() override { sema_ = nullptr; }

  bool HandleTopLevelDecl(DeclGroupRef group) override {
    for (Decl* decl : group) visit(decl);
    return true;
  }
  void HandleInlineFunctionDefinition(FunctionDecl* function) override { visit(function); }
  // Declarations read back from the precompiled header: going through them would load all of it.
  void HandleInterestingDecl(DeclGroupRef) override {}

 private:
  void visit(Decl* decl) {
    if (auto* function = dyn_cast<FunctionDecl>(decl)) {
      visit_function(function);
    } else if (auto* space = dyn_cast<NamespaceDecl>(decl)) {
      for (Decl* inner : space->decls()) visit(inner);
    } else if (auto* record = dyn_cast<CXXRecordDecl>(decl)) {
      if (!record->isDependentContext())
        for (Decl* inner : record->decls()) visit(inner);
    } else if (auto* variable = dyn_cast<VarDecl>(decl)) {
      if (variable->hasInit() && !variable->getType()->isDependentType() && !variable->isInvalidDecl())
        visit(variable->getInit());  // a lambda kept in a global variable
    }
  }

  void visit_function(FunctionDecl* function) {
    if (!function->doesThisDeclarationHaveABody() || function->isDependentContext() || function->isInvalidDecl())
      return;
    if (sema_->getSourceManager().isInSystemHeader(function->getLocation())) return;
    if (visited_.insert(function).second) visit(function->getBody());
  }

  void visit(Stmt* statement) {
    if (!statement) return;
    if (auto* declarations = dyn_cast<DeclStmt>(statement)) return visit_declarations(declarations);
    if (auto* lambda = dyn_cast<LambdaExpr>(statement)) {
      for (Expr* capture : lambda->capture_inits()) visit(capture);
      return visit_function(lambda->getCallOperator());
    }
    if (auto* call = dyn_cast<CXXOperatorCallExpr>(statement)) visit_assignment(call);
    if (auto* block = dyn_cast<CompoundStmt>(statement)) visit_unused(block);
    for (Stmt* child : statement->children()) visit(child);
  }

  /// `relu(x);` alone does nothing: operators give a new tensor.
  void visit_unused(CompoundStmt* block) {
    for (Stmt* statement : block->body()) {
      auto* expression = dyn_cast<Expr>(statement);
      if (!expression) continue;
      const auto* call = dyn_cast<CallExpr>(expression->IgnoreImplicit()->IgnoreParens());
      const FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
      if (!callee || !call->isPRValue() || !is_tensor(call->getType())) continue;
      if (!sema_->getSourceManager().isInSystemHeader(callee->getLocation())) continue;  // the user's own may do more
      report(DiagnosticsEngine::Warning, call->getExprLoc(),
             "the result is not used: operators give a new tensor and leave their arguments as they are");
    }
  }

  template <size_t N>
  void report(DiagnosticsEngine::Level level, SourceLocation place, const char (&message)[N]) {
    DiagnosticsEngine& engine = sema_->getDiagnostics();
    engine.Report(place, engine.getCustomDiagID(level, message));
  }

  void visit_declarations(DeclStmt* statement) {
    llvm::SmallVector<Decl*, 4> decls;
    for (Decl* decl : statement->decls()) {
      decls.push_back(decl);
      auto* variable = dyn_cast<VarDecl>(decl);
      if (!variable || variable->isInvalidDecl() || !variable->hasInit()) {
        if (isa<CXXRecordDecl>(decl)) visit(decl);
        continue;
      }
      visit(variable->getInit());
      if (variable->isStaticLocal() && is_tensor(variable->getType().getNonReferenceType()))
        report(
            DiagnosticsEngine::Error, variable->getLocation(),
            "a tensor cannot be kept in a static variable: the model is built anew with other settings, and would find "
            "a tensor of the earlier one here");
      if (auto* bindings = dyn_cast<DecompositionDecl>(variable))
        add_binding_names(bindings, decls);
      else if (is_tensor(variable->getType().getNonReferenceType()) && variable->getDeclName())
        if (Expr* wrapped = wrap(variable->getInit(), variable->getName(), variable->getLocation()))
          variable->setInit(wrapped);
    }
    if (decls.size() > size_t(std::distance(statement->decl_begin(), statement->decl_end())))
      statement->setDeclGroup(DeclGroupRef::Create(*context_, decls.data(), decls.size()));
  }

  /// `auto [a, b] = f();` gains hidden variables in the same statement: `Tensor = named(a, "a", ...)`.
  void add_binding_names(DecompositionDecl* bindings, llvm::SmallVectorImpl<Decl*>& decls) {
    for (BindingDecl* binding : bindings->bindings()) {
      Expr* bound = binding->getBinding();
      if (!bound || !is_tensor(binding->getType().getNonReferenceType()) || !binding->getDeclName()) continue;
      SourceLocation place = binding->getLocation();
      auto* reference = DeclRefExpr::Create(*context_, NestedNameSpecifierLoc(), SourceLocation(), binding, false,
                                            place, tensor_type(), VK_LValue);
      auto* read = ImplicitCastExpr::Create(*context_, tensor_type().withConst(), CK_NoOp, reference, nullptr,
                                            VK_LValue, FPOptionsOverride());
      CXXConstructorDecl* copy = copy_constructor();
      Expr* value = CXXConstructExpr::Create(*context_, tensor_type(), place, copy, false, {read}, false, false, false,
                                             false, CXXConstructionKind::Complete, SourceRange(place, place));
      auto* hidden =
          VarDecl::Create(*context_, bindings->getDeclContext(), place, place, &context_->Idents.get("hetsynth_name"),
                          tensor_type(), context_->getTrivialTypeSourceInfo(tensor_type(), place), SC_None);
      hidden->setImplicit();
      hidden->setInit(call_named(value, binding->getName(), place));
      decls.push_back(hidden);
    }
  }

  void visit_assignment(CXXOperatorCallExpr* call) {
    if (call->getOperator() != OO_Equal || call->getNumArgs() != 2 || !is_tensor(call->getArg(0)->getType())) return;
    const Expr* target = call->getArg(0)->IgnoreParenImpCasts();
    llvm::StringRef name;
    if (auto* variable = dyn_cast<DeclRefExpr>(target))
      name = variable->getDecl()->getDeclName().isIdentifier() ? variable->getDecl()->getName() : "";
    else if (auto* member = dyn_cast<MemberExpr>(target))
      name = member->getMemberDecl()->getDeclName().isIdentifier() ? member->getMemberDecl()->getName() : "";
    if (name.empty()) return;
    if (Expr* wrapped = wrap(call->getArg(1), name, target->getExprLoc())) call->setArg(1, wrapped);
  }

  /// The expression with the tensor it makes named; nullptr if it only passes a tensor on, or is named already.
  Expr* wrap(Expr* expression, llvm::StringRef name, SourceLocation place) {
    if (auto* cleanups = dyn_cast<ExprWithCleanups>(expression)) {
      Expr* inner = wrap(cleanups->getSubExpr(), name, place);
      return inner ? ExprWithCleanups::Create(*context_, inner, cleanups->cleanupsHaveSideEffects(),
                                              cleanups->getObjects())
                   : nullptr;
    }
    if (auto* parentheses = dyn_cast<ParenExpr>(expression))
      return wrap_child(parentheses, parentheses->getSubExpr(), name, place);
    if (auto* temporary = dyn_cast<MaterializeTemporaryExpr>(expression))
      return wrap_child(temporary, temporary->getSubExpr(), name, place);
    if (auto* cast = dyn_cast<ImplicitCastExpr>(expression); cast && cast->getCastKind() == CK_NoOp)
      return wrap_child(cast, cast->getSubExpr(), name, place);
    if (auto* construction = dyn_cast<CXXConstructExpr>(expression);
        construction && !isa<CXXTemporaryObjectExpr>(construction)) {
      if (construction->getNumArgs() != 1 || !construction->getConstructor()->isCopyOrMoveConstructor()) return nullptr;
      Expr* inner = wrap(construction->getArg(0), name, place);
      if (inner) construction->setArg(0, inner);
      return inner ? expression : nullptr;
    }
    if (!expression->isPRValue() || !is_tensor(expression->getType())) return nullptr;
    if (auto* call = dyn_cast<CallExpr>(expression); call && call->getDirectCallee() == named_ && named_)
      return nullptr;
    return call_named(expression, name, place);
  }

  /// Wraps the one child of a node in place.
  Expr* wrap_child(Expr* parent, Expr* child, llvm::StringRef name, SourceLocation place) {
    Expr* inner = wrap(child, name, place);
    if (!inner) return nullptr;
    *parent->child_begin() = inner;
    return parent;
  }

  /// named(tensor, "name", "file", line, column)
  Expr* call_named(Expr* tensor, llvm::StringRef name, SourceLocation place) {
    const SourceManager& sources = context_->getSourceManager();
    PresumedLoc presumed = sources.getPresumedLoc(sources.getExpansionLoc(place));
    if (!find_named() || presumed.isInvalid()) return tensor;
    auto* function = DeclRefExpr::Create(*context_, NestedNameSpecifierLoc(), SourceLocation(), named_, false, place,
                                         named_->getType(), VK_LValue);
    Expr* callee =
        ImplicitCastExpr::Create(*context_, context_->getPointerType(named_->getType()), CK_FunctionToPointerDecay,
                                 function, nullptr, VK_PRValue, FPOptionsOverride());
    Expr* arguments[] = {tensor, text(name, place), text(presumed.getFilename(), place),
                         number(presumed.getLine(), place), number(presumed.getColumn(), place)};
    return CallExpr::Create(*context_, callee, arguments, tensor_type(), VK_PRValue, place, FPOptionsOverride());
  }

  Expr* text(llvm::StringRef value, SourceLocation place) {
    QualType array = context_->getStringLiteralArrayType(context_->CharTy, value.size());
    Expr* literal = StringLiteral::Create(*context_, value, StringLiteralKind::Ordinary, false, array, place);
    return ImplicitCastExpr::Create(*context_, context_->getPointerType(context_->CharTy.withConst()),
                                    CK_ArrayToPointerDecay, literal, nullptr, VK_PRValue, FPOptionsOverride());
  }

  Expr* number(unsigned value, SourceLocation place) {
    return IntegerLiteral::Create(*context_, llvm::APInt(context_->getIntWidth(context_->IntTy), value),
                                  context_->IntTy, place);
  }

  /// hetsynth::Tensor, recognised by name the first time and by identity from then on.
  bool is_tensor(QualType type) {
    const CXXRecordDecl* record = type->getAsCXXRecordDecl();
    if (!record) return false;
    if (tensor_) return record->getCanonicalDecl() == tensor_;
    if (!record->getIdentifier() || record->getName() != "Tensor") return false;
    const auto* space = dyn_cast<NamespaceDecl>(record->getDeclContext()->getRedeclContext());
    if (!space || space->getName() != "hetsynth" || !space->getParent()->isTranslationUnit()) return false;
    tensor_ = const_cast<CXXRecordDecl*>(record)->getCanonicalDecl();
    return true;
  }
  QualType tensor_type() const { return context_->getRecordType(tensor_); }

  CXXConstructorDecl* copy_constructor() { return sema_->LookupCopyingConstructor(tensor_, Qualifiers::Const); }

  bool find_named() {
    if (!named_)
      for (NamedDecl* found : tensor_->getDeclContext()->lookup(&context_->Idents.get("named")))
        if (auto* function = dyn_cast<FunctionDecl>(found); function && function->getNumParams() == 5)
          named_ = function;
    return named_ != nullptr;
  }

  ASTContext* context_ = nullptr;
  Sema* sema_ = nullptr;
  CXXRecordDecl* tensor_ = nullptr;
  FunctionDecl* named_ = nullptr;
  llvm::SmallPtrSet<const FunctionDecl*, 32> visited_;
};

class NamingAction : public EmitObjAction {
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance& instance, llvm::StringRef file) override {
    std::unique_ptr<ASTConsumer> code_generation = EmitObjAction::CreateASTConsumer(instance, file);
    if (!code_generation) return nullptr;
    std::vector<std::unique_ptr<ASTConsumer>> consumers;
    consumers.push_back(std::make_unique<NamingConsumer>());  // first: code is generated from what it leaves
    consumers.push_back(std::move(code_generation));
    return std::make_unique<MultiplexConsumer>(std::move(consumers));
  }
};

}  // namespace

std::unique_ptr<FrontendAction> naming_action() { return std::make_unique<NamingAction>(); }

}  // namespace hetsynth
