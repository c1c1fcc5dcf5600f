#include "verify/source/parse.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/Stmt.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Lex/Lexer.h>
#include <fmt/format.h>

#include "dsl/jit/clang_session.h"

namespace hetsynth::source {
namespace {

/// Deeper nesting than any generated text has: the tree is walked by recursion.
constexpr int deepest = 400;

/// What the words of CUDA C++ stand for in a text that is parsed as C++ (cuda_words).
constexpr llvm::StringRef kernel_note = "kernel", threads_note = "threads ", shared_note = "shared";

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
  int line(clang::SourceLocation at) const {
    return int(context_.getSourceManager().getPresumedLineNumber(context_.getSourceManager().getExpansionLoc(at)));
  }
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
    slots_.clear();
    names_.clear();
    for (const clang::ParmVarDecl* parameter : decl->parameters()) {
      slot_of(parameter);
      Parameter p{parameter->getNameAsString(), type(parameter->getType()), false};
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
      if (out.name != "launch") {  // variadic, known by name
        number_ = 0;
        out.body = statement(decl->getBody(), 0);
      }
    }
    out.slots = names_;
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

  static Type type(clang::QualType type) {
    if (type->isPointerType() || type->isArrayType()) {
      clang::QualType element =
          type->isPointerType() ? type->getPointeeType() : clang::QualType(type->getPointeeOrArrayElementType(), 0);
      if (element->isCharType()) return Type::bytes;
      if (element->isSpecificBuiltinType(clang::BuiltinType::Float)) return Type::reals;
      if (element->isSpecificBuiltinType(clang::BuiltinType::Int)) return Type::integers;
      if (is_bf16(element) || element->isSpecificBuiltinType(clang::BuiltinType::UShort)) return Type::halves;
      return Type::other;
    }
    if (type->isIntegralOrEnumerationType()) return Type::integer;
    return type->isRealFloatingType() || is_bf16(type) ? Type::real : Type::other;
  }

  /// The prelude's own type; its elements count as the numbers they hold.
  static bool is_bf16(clang::QualType type) {
    const clang::RecordDecl* record = type->getAsRecordDecl();
    return record && record->getName() == "bf16";
  }

  int slot_of(const clang::ValueDecl* decl) {
    auto [entry, fresh] = slots_.insert({decl, int(names_.size())});
    if (fresh) names_.push_back(decl->getNameAsString());
    return entry->second;
  }

  // ---- statements ----

  Statement make(Statement::Kind kind, clang::SourceLocation at) {
    Statement out;
    out.kind = kind;
    out.line = line(at);
    out.number = number_++;
    return out;
  }

  Statement stray_statement(const clang::Stmt* s, const std::string& what) {
    Statement out = make(Statement::Kind::other, s->getBeginLoc());
    out.value.name = what;
    return out;
  }

  Statement statement(const clang::Stmt* s, int depth) {
    if (depth > deepest) return stray_statement(s, "statements nested too deeply");
    if (auto* block = llvm::dyn_cast<clang::CompoundStmt>(s)) {
      Statement out = make(Statement::Kind::block, s->getBeginLoc());
      for (const clang::Stmt* inner : block->body()) out.body.push_back(statement(inner, depth + 1));
      return out;
    }
    if (auto* attributed = llvm::dyn_cast<clang::AttributedStmt>(s)) return statement(attributed->getSubStmt(), depth);
    if (auto* declaration = llvm::dyn_cast<clang::DeclStmt>(s)) return declarations(declaration, depth);
    if (auto* loop = llvm::dyn_cast<clang::ForStmt>(s)) return counted_loop(loop, depth);
    if (auto* branch = llvm::dyn_cast<clang::IfStmt>(s)) {
      if (branch->getConditionVariable()) return stray_statement(s, "a declaration as a condition");
      Statement around = make(Statement::Kind::block, s->getBeginLoc());
      if (branch->getInit()) around.body.push_back(statement(branch->getInit(), depth + 1));
      Statement out = make(Statement::Kind::branch, s->getBeginLoc());
      out.value = expression(branch->getCond(), depth);
      out.body.push_back(statement(branch->getThen(), depth + 1));
      if (branch->getElse()) out.body.push_back(statement(branch->getElse(), depth + 1));
      if (!branch->getInit()) return out;
      around.body.push_back(std::move(out));
      return around;
    }
    if (auto* leave = llvm::dyn_cast<clang::ReturnStmt>(s)) {
      Statement out = make(Statement::Kind::leave, s->getBeginLoc());
      out.has_value = leave->getRetValue() != nullptr;
      if (out.has_value) out.value = expression(leave->getRetValue(), depth);
      return out;
    }
    if (auto* e = llvm::dyn_cast<clang::Expr>(s)) return effect(e->IgnoreParens(), depth);
    if (llvm::isa<clang::BreakStmt>(s)) return make(Statement::Kind::stop, s->getBeginLoc());
    if (llvm::isa<clang::NullStmt>(s)) return make(Statement::Kind::block, s->getBeginLoc());
    return stray_statement(s, s->getStmtClassName());
  }

  Statement declarations(const clang::DeclStmt* declaration, int depth) {
    Statement out = make(Statement::Kind::block, declaration->getBeginLoc());
    for (const clang::Decl* decl : declaration->decls()) {
      auto* variable = llvm::dyn_cast<clang::VarDecl>(decl);
      // Constant tables may be static: nothing can change them between steps.
      bool lasting = variable && variable->isStaticLocal() && !variable->getType().isConstant(context_);
      if (!variable || lasting) return stray_statement(declaration, "a declaration");
      Statement one = make(Statement::Kind::declare, variable->getBeginLoc());
      one.slot = slot_of(variable);
      one.type = type(variable->getType());
      if (auto* array = context_.getAsConstantArrayType(variable->getType()))
        one.elements = int64_t(context_.getConstantArrayElementCount(array));
      for (const clang::AnnotateAttr* note : variable->specific_attrs<clang::AnnotateAttr>())
        one.shared = one.shared || note->getAnnotation() == shared_note;
      if (const clang::Expr* init = variable->getInit()) {
        if (auto* list = llvm::dyn_cast<clang::InitListExpr>(init->IgnoreImplicit())) {
          one.zeroed = true;
          for (const clang::Expr* item : list->inits())
            if (!llvm::isa<clang::ImplicitValueInitExpr>(item)) one.list.push_back(expression(item, depth));
        } else {
          one.has_value = true;
          one.value = expression(init, depth);
        }
      }
      out.body.push_back(one);
    }
    return out.body.size() == 1 ? out.body[0] : out;
  }

  /// for (T i = a; i < b; ++i) or i += constant.
  Statement counted_loop(const clang::ForStmt* loop, int depth) {
    Statement out = make(Statement::Kind::loop, loop->getBeginLoc());
    auto* init = llvm::dyn_cast_or_null<clang::DeclStmt>(loop->getInit());
    auto* condition =
        llvm::dyn_cast_or_null<clang::BinaryOperator>(loop->getCond() ? loop->getCond()->IgnoreImplicit() : nullptr);
    if (!init || !init->isSingleDecl() || !condition || condition->getOpcode() != clang::BO_LT || !loop->getInc())
      return stray_statement(loop, "a loop that does not count up to a bound");
    auto* counter = llvm::dyn_cast<clang::VarDecl>(init->getSingleDecl());
    if (!counter || !counter->getInit() || type(counter->getType()) != Type::integer)
      return stray_statement(loop, "a loop without an integer counter");
    out.slot = slot_of(counter);
    out.value = expression(counter->getInit(), depth);
    Expression left = expression(condition->getLHS(), depth);
    if (left.kind != Kind::variable || left.slot != out.slot)
      return stray_statement(loop, "a loop that tests another variable");
    out.limit = expression(condition->getRHS(), depth);
    const clang::Expr* increment = loop->getInc()->IgnoreParenImpCasts();
    if (auto* unary = llvm::dyn_cast<clang::UnaryOperator>(increment)) {
      Expression of = expression(unary->getSubExpr(), depth);
      if (!unary->isIncrementOp() || of.slot != out.slot) return stray_statement(loop, "a loop with another step");
    } else if (auto* assign = llvm::dyn_cast<clang::CompoundAssignOperator>(increment)) {
      Expression of = expression(assign->getLHS(), depth), by = expression(assign->getRHS(), depth);
      if (assign->getOpcode() != clang::BO_AddAssign || of.slot != out.slot ||
          (by.kind == Kind::integer && by.integer_value <= 0))
        return stray_statement(loop, "a loop with another step");
      out.step = by.kind == Kind::integer ? by.integer_value : 0;
      if (out.step == 0) out.increment = std::move(by);
    } else {
      return stray_statement(loop, "a loop with another step");
    }
    out.body.push_back(statement(loop->getBody(), depth + 1));
    return out;
  }

  Statement effect(const clang::Expr* e, int depth) {
    if (auto* cleanups = llvm::dyn_cast<clang::ExprWithCleanups>(e)) return effect(cleanups->getSubExpr(), depth);
    if (auto* both = llvm::dyn_cast<clang::BinaryOperator>(e); both && both->getOpcode() == clang::BO_Comma) {
      if (depth > deepest) return stray_statement(e, "an expression nested too deeply");
      Statement out = make(Statement::Kind::block, e->getBeginLoc());
      out.body.push_back(effect(both->getLHS()->IgnoreParens(), depth + 1));
      out.body.push_back(effect(both->getRHS()->IgnoreParens(), depth + 1));
      return out;
    }
    if (auto* binary = llvm::dyn_cast<clang::BinaryOperator>(e); binary && binary->isAssignmentOp())
      return assignment(binary, depth);
    if (auto* copied = llvm::dyn_cast<clang::CXXOperatorCallExpr>(e);
        copied && copied->getOperator() == clang::OO_Equal && is_bf16(copied->getType())) {
      Statement out = make(Statement::Kind::assign, e->getBeginLoc());
      out.target = expression(copied->getArg(0), depth);
      out.value = expression(copied->getArg(1), depth);
      return out;
    }
    if (auto* cast = llvm::dyn_cast<clang::CStyleCastExpr>(e); cast && cast->getType()->isVoidType())
      return make(Statement::Kind::block, e->getBeginLoc());  // "(void)arena;"
    Statement out = make(Statement::Kind::call, e->getBeginLoc());
    out.value = expression(e, depth);
    if (out.value.kind != Kind::call) return stray_statement(e, "an expression without effect");
    return out;
  }

  Statement assignment(const clang::BinaryOperator* binary, int depth) {
    Statement out = make(Statement::Kind::assign, binary->getBeginLoc());
    out.target = expression(binary->getLHS(), depth);
    out.value = expression(binary->getRHS(), depth);
    switch (binary->getOpcode()) {
      case clang::BO_Assign:
        return out;
      case clang::BO_AddAssign:
        out.accumulates = true;
        return out;
      case clang::BO_MulAssign:
        out.value = make(Kind::mul, binary, {out.target, out.value});
        return out;
      case clang::BO_DivAssign:
        out.value = make(Kind::div, binary, {out.target, out.value});
        return out;
      default:
        return stray_statement(binary, "an assignment other than =, +=, *= and /=");
    }
  }

  // ---- expressions ----

  Expression make(Kind kind, const clang::Expr* e, std::vector<Expression> args = {}) const {
    Expression out;
    out.kind = kind;
    out.type = type(e->getType());
    out.args = std::move(args);
    out.line = line(e->getBeginLoc());
    return out;
  }
  Expression stray(const clang::Expr* e, const std::string& what) const {
    Expression out = make(Kind::other, e);
    out.name = what;
    return out;
  }

  Expression expression(const clang::Expr* e, int depth) {
    if (depth > deepest) return stray(e, "an expression nested too deeply");
    ++depth;
    if (auto* literal = llvm::dyn_cast<clang::IntegerLiteral>(e)) {
      Expression out = make(Kind::integer, e);
      out.integer_value = int64_t(literal->getValue().getLimitedValue());
      return out;
    }
    if (auto* literal = llvm::dyn_cast<clang::FloatingLiteral>(e)) {
      Expression out = make(Kind::real, e);
      bool lost = false;
      llvm::APFloat value = literal->getValue();
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
      out.real_value = value.convertToDouble();
      return out;
    }
    if (auto* string = llvm::dyn_cast<clang::StringLiteral>(e)) {
      Expression out = make(Kind::text, e);
      out.name = string->getString().str();
      return out;
    }
    if (auto* inner = llvm::dyn_cast<clang::ParenExpr>(e)) return expression(inner->getSubExpr(), depth);
    if (auto* inner = llvm::dyn_cast<clang::ExprWithCleanups>(e)) return expression(inner->getSubExpr(), depth);
    if (auto* inner = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(e)) return expression(inner->getSubExpr(), depth);
    if (auto* cast = llvm::dyn_cast<clang::CastExpr>(e)) return converted(cast, depth);
    if (auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(e)) return named(reference);
    if (auto* member = llvm::dyn_cast<clang::MemberExpr>(e)) {
      Expression out = make(Kind::member, e);
      out.name = member->getMemberDecl()->getNameAsString();
      auto* of = llvm::dyn_cast<clang::DeclRefExpr>(member->getBase()->IgnoreImpCasts());
      if (of && !member->isArrow()) out.name = of->getDecl()->getNameAsString() + "." + out.name;
      return out;
    }
    if (auto* literal = llvm::dyn_cast<clang::CXXBoolLiteralExpr>(e)) {
      Expression out = make(Kind::integer, e);
      out.integer_value = literal->getValue();
      return out;
    }
    if (auto* subscript = llvm::dyn_cast<clang::ArraySubscriptExpr>(e)) {
      Expression out =
          make(Kind::element, e, {expression(subscript->getBase(), depth), expression(subscript->getIdx(), depth)});
      if (auto* array = context_.getAsConstantArrayType(e->getType()))
        out.integer_value = int64_t(context_.getConstantArrayElementCount(array));
      return out;
    }
    if (auto* unary = llvm::dyn_cast<clang::UnaryOperator>(e)) return prefixed(unary, depth);
    if (auto* binary = llvm::dyn_cast<clang::BinaryOperator>(e)) return infix(binary, depth);
    if (auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(e))
      return make(Kind::choose, e,
                  {expression(choice->getCond(), depth), expression(choice->getTrueExpr(), depth),
                   expression(choice->getFalseExpr(), depth)});
    if (auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(e); made && is_bf16(made->getType())) {
      // A copy, or a number that is rounded.
      if (made->getNumArgs() != 1) return stray(e, "a bf16 without a value");
      Expression value = expression(made->getArg(0), depth);
      if (made->getConstructor()->isCopyOrMoveConstructor()) return value;
      Expression out = make(Kind::call, e, {value});
      out.name = "round_bf16";
      return out;
    }
    if (auto* call = llvm::dyn_cast<clang::CallExpr>(e)) {
      // bf16's only member: its value.
      if (auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(call); member && call->getNumArgs() == 0)
        return expression(member->getImplicitObjectArgument(), depth);
      Expression out = make(Kind::call, e);
      if (const clang::FunctionDecl* callee = call->getDirectCallee()) out.name = callee->getNameAsString();
      for (const clang::Expr* argument : call->arguments()) out.args.push_back(expression(argument, depth));
      return out.name.empty() ? stray(e, "a call through a pointer") : out;
    }
    return stray(e, e->getStmtClassName());
  }

  Expression named(const clang::DeclRefExpr* reference) {
    const clang::ValueDecl* decl = reference->getDecl();
    if (auto* constant = llvm::dyn_cast<clang::EnumConstantDecl>(decl)) {
      Expression out = make(Kind::integer, reference);
      out.type = Type::integer;
      out.integer_value = constant->getInitVal().getExtValue();
      out.name = constant->getNameAsString();
      return out;
    }
    auto* variable = llvm::dyn_cast<clang::VarDecl>(decl);
    if (!variable) return stray(reference, decl->getNameAsString());
    Expression out = make(variable->isLocalVarDeclOrParm() ? Kind::variable : Kind::global, reference);
    out.name = decl->getNameAsString();
    if (out.kind == Kind::variable) out.slot = slot_of(decl);
    return out;
  }

  /// Conversions between numbers count where they change a value or how it compares.
  Expression converted(const clang::CastExpr* cast, int depth) {
    Expression inner = expression(cast->getSubExpr(), depth);
    clang::QualType to = cast->getType();
    switch (cast->getCastKind()) {
      case clang::CK_IntegralToFloating:
        if (inner.kind == Kind::integer) {
          inner.kind = Kind::real;
          inner.type = Type::real;
          inner.real_value = double(inner.integer_value);
          return inner;
        }
        return make(Kind::to_real, cast, {inner});
      case clang::CK_FloatingToIntegral:
        return make(Kind::to_integer, cast, {inner});
      case clang::CK_IntegralCast:
        if (to->isUnsignedIntegerType() && !cast->getSubExpr()->getType()->isUnsignedIntegerType() &&
            inner.kind != Kind::integer)
          return make(Kind::to_unsigned, cast, {inner});
        return inner;
      default:
        if (type(to) != Type::other) inner.type = type(to);
        return inner;
    }
  }

  Expression prefixed(const clang::UnaryOperator* unary, int depth) {
    switch (unary->getOpcode()) {
      case clang::UO_Minus: {
        Expression inner = expression(unary->getSubExpr(), depth);
        if (inner.kind == Kind::integer || inner.kind == Kind::real) {
          inner.integer_value = -inner.integer_value;
          inner.real_value = -inner.real_value;
          return inner;
        }
        return make(Kind::negative, unary, {inner});
      }
      case clang::UO_Plus:
        return expression(unary->getSubExpr(), depth);
      case clang::UO_LNot:
        return make(Kind::not_, unary, {expression(unary->getSubExpr(), depth)});
      default:
        return stray(unary, "a unary operator");
    }
  }

  Expression infix(const clang::BinaryOperator* binary, int depth) {
    Expression a = expression(binary->getLHS(), depth), b = expression(binary->getRHS(), depth);
    auto of = [&](Kind kind) { return make(kind, binary, {a, b}); };
    auto flipped = [&](Kind kind) { return make(kind, binary, {b, a}); };
    switch (binary->getOpcode()) {
      case clang::BO_Add:
        return of(Kind::add);
      case clang::BO_Sub:
        return of(Kind::sub);
      case clang::BO_Mul:
        return of(Kind::mul);
      case clang::BO_Div:
        return of(Kind::div);
      case clang::BO_Rem:
        return of(Kind::modulo);
      case clang::BO_LT:
        return of(Kind::less);
      case clang::BO_GT:
        return flipped(Kind::less);
      case clang::BO_LE:
        return of(Kind::less_equal);
      case clang::BO_GE:
        return flipped(Kind::less_equal);
      case clang::BO_EQ:
        return of(Kind::equal);
      case clang::BO_NE:
        return make(Kind::not_, binary, {of(Kind::equal)});
      case clang::BO_LAnd:
        return of(Kind::and_);
      case clang::BO_LOr:
        return of(Kind::or_);
      default:
        return stray(binary, "the operator " + binary->getOpcodeStr().str());
    }
  }

  clang::ASTContext& context_;
  Unit& unit_;
  std::map<const clang::ValueDecl*, int> slots_;
  std::vector<std::string> names_;
  int number_ = 0;
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
