#include "verify/source/text/parse_expression.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Basic/SourceManager.h>
#include <fmt/format.h>

namespace hetsynth::source {

int line_of(const clang::ASTContext& context, clang::SourceLocation at) {
  const clang::SourceManager& sources = context.getSourceManager();
  return int(sources.getPresumedLineNumber(sources.getExpansionLoc(at)));
}

std::optional<DType> half_of(clang::QualType type) {
  const clang::TagDecl* tag = type->getAsTagDecl();
  for (const HalfFormat& format : half_formats)
    if (tag && tag->getName() == llvm::StringRef(name(format.dtype))) return format.dtype;
  return std::nullopt;
}

bool is_half_number(clang::QualType type) { return type->isRecordType() && half_of(type); }

Type type_of(clang::QualType type) {
  if (type->isPointerType() || type->isArrayType()) {
    clang::QualType element =
        type->isPointerType() ? type->getPointeeType() : clang::QualType(type->getPointeeOrArrayElementType(), 0);
    if (element->isCharType()) return Type::bytes;
    if (element->isSpecificBuiltinType(clang::BuiltinType::Float)) return Type::reals;
    if (element->isSpecificBuiltinType(clang::BuiltinType::Int)) return Type::integers;
    if (const auto half = half_of(element)) return pointer_to(*half);
    return Type::other;
  }
  if (type->isIntegralOrEnumerationType()) return Type::integer;
  return type->isRealFloatingType() || is_half_number(type) ? Type::real : Type::other;
}

int ExpressionParser::slot_of(const clang::ValueDecl* decl) {
  auto [entry, fresh] = slots_.insert({decl, int(names_.size())});
  if (fresh) names_.push_back(decl->getNameAsString());
  return entry->second;
}

bool ExpressionParser::is_narrow(clang::QualType type) const {
  return type->isIntegerType() && !type->isBooleanType() && context_.getTypeSize(type) <= 32;
}

Expression ExpressionParser::make(Kind kind, const clang::Expr* e, std::vector<Expression> args) const {
  Expression out;
  out.kind = kind;
  out.type = type_of(e->getType());
  out.narrow = is_narrow(e->getType());
  out.args = std::move(args);
  out.line = line_of(context_, e->getBeginLoc());
  return out;
}

Expression ExpressionParser::stray(const clang::Expr* e, const std::string& what) const {
  Expression out = make(Kind::other, e);
  out.name = what;
  return out;
}

Expression ExpressionParser::parse(const clang::Expr* e, int depth) {
  if (depth > deepest_nesting) return stray(e, "an expression nested too deeply");
  ++depth;
  if (auto literal = this->literal(e)) return *literal;
  if (auto* inner = llvm::dyn_cast<clang::ParenExpr>(e)) return parse(inner->getSubExpr(), depth);
  if (auto* inner = llvm::dyn_cast<clang::ExprWithCleanups>(e)) return parse(inner->getSubExpr(), depth);
  if (auto* inner = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(e)) return parse(inner->getSubExpr(), depth);
  if (auto* cast = llvm::dyn_cast<clang::CastExpr>(e)) return converted(cast, depth);
  if (auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(e)) return named(reference);
  if (auto* member = llvm::dyn_cast<clang::MemberExpr>(e)) return field(member);
  if (auto* subscript = llvm::dyn_cast<clang::ArraySubscriptExpr>(e)) {
    Expression out = make(Kind::element, e, {parse(subscript->getBase(), depth), parse(subscript->getIdx(), depth)});
    if (auto* array = context_.getAsConstantArrayType(e->getType()))
      out.integer_value = int64_t(context_.getConstantArrayElementCount(array));
    return out;
  }
  if (auto* unary = llvm::dyn_cast<clang::UnaryOperator>(e)) return prefixed(unary, depth);
  if (auto* binary = llvm::dyn_cast<clang::BinaryOperator>(e)) return infix(binary, depth);
  if (auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(e))
    return make(
        Kind::choose, e,
        {parse(choice->getCond(), depth), parse(choice->getTrueExpr(), depth), parse(choice->getFalseExpr(), depth)});
  if (auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(e); made && is_half_number(made->getType()))
    return rounded(made, depth);
  if (auto* call = llvm::dyn_cast<clang::CallExpr>(e)) return called(call, depth);
  return stray(e, e->getStmtClassName());
}

std::optional<Expression> ExpressionParser::literal(const clang::Expr* e) const {
  if (auto* literal = llvm::dyn_cast<clang::IntegerLiteral>(e)) {
    if (literal->getValue().getActiveBits() > 63) return stray(e, "a number of more than 63 bits");
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
  if (auto* literal = llvm::dyn_cast<clang::CXXBoolLiteralExpr>(e)) {
    Expression out = make(Kind::integer, e);
    out.integer_value = literal->getValue();
    return out;
  }
  return {};
}

/// A field of the context, or of what is named before the dot.
Expression ExpressionParser::field(const clang::MemberExpr* member) const {
  Expression out = make(Kind::member, member);
  out.name = member->getMemberDecl()->getNameAsString();
  auto* of = llvm::dyn_cast<clang::DeclRefExpr>(member->getBase()->IgnoreImpCasts());
  if (of && !member->isArrow()) out.name = of->getDecl()->getNameAsString() + "." + out.name;
  return out;
}

/// A number of 16 bits: a copy, or one that is rounded.
Expression ExpressionParser::rounded(const clang::CXXConstructExpr* made, int depth) {
  if (made->getNumArgs() != 1) return stray(made, "a number of 16 bits without a value");
  Expression value = parse(made->getArg(0), depth);
  if (made->getConstructor()->isCopyOrMoveConstructor()) return value;
  Expression out = make(Kind::call, made, {value});
  out.name = fmt::format("round_{}", name(*half_of(made->getType())));
  return out;
}

Expression ExpressionParser::called(const clang::CallExpr* call, int depth) {
  // Their only member: the value.
  if (auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(call); member && call->getNumArgs() == 0)
    return parse(member->getImplicitObjectArgument(), depth);
  Expression out = make(Kind::call, call);
  if (const clang::FunctionDecl* callee = call->getDirectCallee()) out.name = callee->getNameAsString();
  for (const clang::Expr* argument : call->arguments()) out.args.push_back(parse(argument, depth));
  return out.name.empty() ? stray(call, "a call through a pointer") : out;
}

Expression ExpressionParser::named(const clang::DeclRefExpr* reference) {
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
Expression ExpressionParser::converted(const clang::CastExpr* cast, int depth) {
  Expression inner = parse(cast->getSubExpr(), depth);
  clang::QualType to = cast->getType();
  const clang::QualType from = cast->getSubExpr()->getType();
  if (from->isEnumeralType() && half_of(from) && cast->getCastKind() != clang::CK_LValueToRValue)
    return stray(cast, "the bits of a number");
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
      inner.narrow = is_narrow(to);
      return inner;
    default:
      if (type_of(to) != Type::other) inner.type = type_of(to);
      return inner;
  }
}

Expression ExpressionParser::prefixed(const clang::UnaryOperator* unary, int depth) {
  switch (unary->getOpcode()) {
    case clang::UO_Minus:
      return negated(parse(unary->getSubExpr(), depth), unary);
    case clang::UO_Plus:
      return parse(unary->getSubExpr(), depth);
    case clang::UO_LNot:
      return make(Kind::not_, unary, {parse(unary->getSubExpr(), depth)});
    default:
      return stray(unary, "a unary operator");
  }
}

Expression ExpressionParser::negated(Expression inner, const clang::Expr* at) {
  if (inner.kind != Kind::integer && inner.kind != Kind::real) return make(Kind::negative, at, {std::move(inner)});
  inner.integer_value = -inner.integer_value;
  inner.real_value = -inner.real_value;
  return inner;
}

Expression ExpressionParser::infix(const clang::BinaryOperator* binary, int depth) {
  Expression a = parse(binary->getLHS(), depth), b = parse(binary->getRHS(), depth);
  auto of = [&](Kind kind) { return make(kind, binary, {a, b}); };
  auto flipped = [&](Kind kind) { return make(kind, binary, {b, a}); };
  switch (binary->getOpcode()) {
    case clang::BO_Add:
      return of(Kind::add);
    case clang::BO_Sub:
      // All that follows pointers knows them as sums.
      if (binary->getType()->isPointerType()) return make(Kind::add, binary, {a, negated(b, binary->getRHS())});
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

}  // namespace hetsynth::source
