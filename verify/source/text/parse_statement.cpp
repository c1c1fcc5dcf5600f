#include "verify/source/text/parse_statement.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/Stmt.h>

namespace hetsynth::source {
namespace {

class StatementParser {
 public:
  explicit StatementParser(ExpressionParser& expressions) : expressions_(expressions) {}

  Statement statement(const clang::Stmt* s, int depth) {
    if (depth > deepest_nesting) return stray(s, "statements nested too deeply");
    if (auto* block = llvm::dyn_cast<clang::CompoundStmt>(s)) {
      Statement out = make(Statement::Kind::block, s->getBeginLoc());
      for (const clang::Stmt* inner : block->body()) out.body.push_back(statement(inner, depth + 1));
      return out;
    }
    if (auto* attributed = llvm::dyn_cast<clang::AttributedStmt>(s)) return statement(attributed->getSubStmt(), depth);
    if (auto* declaration = llvm::dyn_cast<clang::DeclStmt>(s)) return declarations(declaration, depth);
    if (auto* loop = llvm::dyn_cast<clang::ForStmt>(s)) return counted_loop(loop, depth);
    if (auto* branch = llvm::dyn_cast<clang::IfStmt>(s)) return branched(branch, depth);
    if (auto* leave = llvm::dyn_cast<clang::ReturnStmt>(s)) {
      Statement out = make(Statement::Kind::leave, s->getBeginLoc());
      out.has_value = leave->getRetValue() != nullptr;
      if (out.has_value) out.value = expressions_.parse(leave->getRetValue(), depth);
      return out;
    }
    if (auto* e = llvm::dyn_cast<clang::Expr>(s)) return effect(e->IgnoreParens(), depth);
    if (llvm::isa<clang::BreakStmt>(s)) return make(Statement::Kind::stop, s->getBeginLoc());
    if (llvm::isa<clang::NullStmt>(s)) return make(Statement::Kind::block, s->getBeginLoc());
    return stray(s, s->getStmtClassName());
  }

 private:
  Statement make(Statement::Kind kind, clang::SourceLocation at) {
    Statement out;
    out.kind = kind;
    out.line = line_of(expressions_.context(), at);
    out.number = number_++;
    return out;
  }

  Statement stray(const clang::Stmt* s, const std::string& what) {
    Statement out = make(Statement::Kind::other, s->getBeginLoc());
    out.value.name = what;
    return out;
  }

  /// What is declared in an if stands in a block around it.
  Statement branched(const clang::IfStmt* branch, int depth) {
    if (branch->getConditionVariable()) return stray(branch, "a declaration as a condition");
    Statement around = make(Statement::Kind::block, branch->getBeginLoc());
    if (branch->getInit()) around.body.push_back(statement(branch->getInit(), depth + 1));
    Statement out = make(Statement::Kind::branch, branch->getBeginLoc());
    out.value = expressions_.parse(branch->getCond(), depth);
    out.body.push_back(statement(branch->getThen(), depth + 1));
    if (branch->getElse()) out.body.push_back(statement(branch->getElse(), depth + 1));
    if (!branch->getInit()) return out;
    around.body.push_back(std::move(out));
    return around;
  }

  Statement declarations(const clang::DeclStmt* declaration, int depth) {
    const clang::ASTContext& context = expressions_.context();
    Statement out = make(Statement::Kind::block, declaration->getBeginLoc());
    for (const clang::Decl* decl : declaration->decls()) {
      auto* variable = llvm::dyn_cast<clang::VarDecl>(decl);
      // Constant tables may be static: nothing can change them between steps.
      bool lasting = variable && variable->isStaticLocal() && !variable->getType().isConstant(context);
      if (!variable || lasting) return stray(declaration, "a declaration");
      Statement one = make(Statement::Kind::declare, variable->getBeginLoc());
      one.slot = expressions_.slot_of(variable);
      one.type = type_of(variable->getType());
      if (auto* array = context.getAsConstantArrayType(variable->getType()))
        one.elements = int64_t(context.getConstantArrayElementCount(array));
      for (const clang::AnnotateAttr* note : variable->specific_attrs<clang::AnnotateAttr>())
        one.shared = one.shared || note->getAnnotation() == shared_note;
      if (const clang::Expr* init = variable->getInit()) {
        if (auto* list = llvm::dyn_cast<clang::InitListExpr>(init->IgnoreImplicit())) {
          one.zeroed = true;
          for (const clang::Expr* item : list->inits())
            if (!llvm::isa<clang::ImplicitValueInitExpr>(item)) one.list.push_back(expressions_.parse(item, depth));
        } else {
          one.has_value = true;
          one.value = expressions_.parse(init, depth);
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
      return stray(loop, "a loop that does not count up to a bound");
    auto* counter = llvm::dyn_cast<clang::VarDecl>(init->getSingleDecl());
    if (!counter || !counter->getInit() || type_of(counter->getType()) != Type::integer)
      return stray(loop, "a loop without an integer counter");
    out.slot = expressions_.slot_of(counter);
    out.value = expressions_.parse(counter->getInit(), depth);
    Expression left = expressions_.parse(condition->getLHS(), depth);
    if (left.kind != Kind::variable || left.slot != out.slot) return stray(loop, "a loop that tests another variable");
    out.limit = expressions_.parse(condition->getRHS(), depth);
    const clang::Expr* increment = loop->getInc()->IgnoreParenImpCasts();
    if (auto* unary = llvm::dyn_cast<clang::UnaryOperator>(increment)) {
      Expression of = expressions_.parse(unary->getSubExpr(), depth);
      if (!unary->isIncrementOp() || of.slot != out.slot) return stray(loop, "a loop with another step");
    } else if (auto* assign = llvm::dyn_cast<clang::CompoundAssignOperator>(increment)) {
      Expression of = expressions_.parse(assign->getLHS(), depth), by = expressions_.parse(assign->getRHS(), depth);
      if (assign->getOpcode() != clang::BO_AddAssign || of.slot != out.slot ||
          (by.kind == Kind::integer && by.integer_value <= 0))
        return stray(loop, "a loop with another step");
      out.step = by.kind == Kind::integer ? by.integer_value : 0;
      if (out.step == 0) out.increment = std::move(by);
    } else {
      return stray(loop, "a loop with another step");
    }
    out.body.push_back(statement(loop->getBody(), depth + 1));
    return out;
  }

  Statement effect(const clang::Expr* e, int depth) {
    if (auto* cleanups = llvm::dyn_cast<clang::ExprWithCleanups>(e)) return effect(cleanups->getSubExpr(), depth);
    if (auto* both = llvm::dyn_cast<clang::BinaryOperator>(e); both && both->getOpcode() == clang::BO_Comma) {
      if (depth > deepest_nesting) return stray(e, "an expression nested too deeply");
      Statement out = make(Statement::Kind::block, e->getBeginLoc());
      out.body.push_back(effect(both->getLHS()->IgnoreParens(), depth + 1));
      out.body.push_back(effect(both->getRHS()->IgnoreParens(), depth + 1));
      return out;
    }
    if (auto* binary = llvm::dyn_cast<clang::BinaryOperator>(e); binary && binary->isAssignmentOp())
      return assignment(binary, depth);
    if (auto* copied = llvm::dyn_cast<clang::CXXOperatorCallExpr>(e);
        copied && copied->getOperator() == clang::OO_Equal && is_half_number(copied->getType())) {
      Statement out = make(Statement::Kind::assign, e->getBeginLoc());
      out.target = expressions_.parse(copied->getArg(0), depth);
      out.value = expressions_.parse(copied->getArg(1), depth);
      return out;
    }
    if (auto* cast = llvm::dyn_cast<clang::CStyleCastExpr>(e); cast && cast->getType()->isVoidType())
      return make(Statement::Kind::block, e->getBeginLoc());  // "(void)arena;"
    Statement out = make(Statement::Kind::call, e->getBeginLoc());
    out.value = expressions_.parse(e, depth);
    if (out.value.kind != Kind::call) return stray(e, "an expression without effect");
    return out;
  }

  Statement assignment(const clang::BinaryOperator* binary, int depth) {
    Statement out = make(Statement::Kind::assign, binary->getBeginLoc());
    out.target = expressions_.parse(binary->getLHS(), depth);
    out.value = expressions_.parse(binary->getRHS(), depth);
    switch (binary->getOpcode()) {
      case clang::BO_Assign:
        return out;
      case clang::BO_AddAssign:
        out.accumulates = true;
        return out;
      case clang::BO_MulAssign:
        out.value = expressions_.make(Kind::mul, binary, {out.target, out.value});
        return out;
      case clang::BO_DivAssign:
        out.value = expressions_.make(Kind::div, binary, {out.target, out.value});
        return out;
      default:
        return stray(binary, "an assignment other than =, +=, *= and /=");
    }
  }

  ExpressionParser& expressions_;
  int number_ = 0;
};

}  // namespace

Statement parse_body(const clang::Stmt* body, ExpressionParser& expressions) {
  return StatementParser(expressions).statement(body, 0);
}

}  // namespace hetsynth::source
