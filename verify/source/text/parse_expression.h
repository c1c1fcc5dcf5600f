// Internal to parsing: the expressions of Clang's tree as those of syntax.h.
#pragma once
#include <clang/AST/Expr.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// Deeper nesting than any generated text has: the tree is walked by recursion.
constexpr int deepest_nesting = 400;

/// In the text as people see it.
int line_of(const clang::ASTContext& context, clang::SourceLocation at);
/// The format of 16 bits that a type of the text stands for, by its name: a structure that converts, or, in the host's
/// text, a type that is only moved.
std::optional<DType> half_of(clang::QualType type);
/// A structure of the prelude; it counts as the number it holds.
bool is_half_number(clang::QualType type);
Type type_of(clang::QualType type);

/// Of one function, whose variables it numbers as it meets them.
class ExpressionParser {
 public:
  explicit ExpressionParser(const clang::ASTContext& context) : context_(context) {}

  /// `depth`: how deeply it is nested.
  Expression parse(const clang::Expr* e, int depth);
  /// One that stands where `e` stands and counts as `e` does.
  Expression make(Kind kind, const clang::Expr* e, std::vector<Expression> args = {}) const;
  int slot_of(const clang::ValueDecl* decl);
  /// By slot.
  const std::vector<std::string>& names() const { return names_; }
  const clang::ASTContext& context() const { return context_; }

 private:
  Expression stray(const clang::Expr* e, const std::string& what) const;
  std::optional<Expression> literal(const clang::Expr* e) const;
  Expression field(const clang::MemberExpr* member) const;
  Expression rounded(const clang::CXXConstructExpr* made, int depth);
  Expression called(const clang::CallExpr* call, int depth);
  Expression named(const clang::DeclRefExpr* reference);
  Expression converted(const clang::CastExpr* cast, int depth);
  /// -inner.
  Expression negated(Expression inner, const clang::Expr* at);
  Expression prefixed(const clang::UnaryOperator* unary, int depth);
  Expression infix(const clang::BinaryOperator* binary, int depth);
  bool is_narrow(clang::QualType type) const;

  const clang::ASTContext& context_;
  std::map<const clang::ValueDecl*, int> slots_;
  std::vector<std::string> names_;
};

}  // namespace hetsynth::source
