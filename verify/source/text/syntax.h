// The part of C++ that generated programs are written in, as a small tree: what source checking reads. Made from text
// by parse.h; free of Clang's types.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/ir/type.h"

namespace hetsynth::source {

enum class Kind : uint8_t {
  integer,   ///< `integer_value`
  real,      ///< `real_value`
  text,      ///< a string literal, in `name`
  variable,  ///< `slot` of the function's frame
  global,    ///< a constant table of the file: `name`
  member,    ///< a field of the context: `name` is "arena", "step", ...; of the kernel's place: "threadIdx.x", ...
  element,   ///< args[0][args[1]]
  negative,
  not_,
  add,
  sub,
  mul,
  div,
  modulo,
  less,
  less_equal,
  equal,
  and_,
  or_,
  choose,      ///< args[0] ? args[1] : args[2]
  to_integer,  ///< towards zero
  to_unsigned,
  to_real,
  call,   ///< `name` of args
  other,  ///< nothing that generated programs contain; `name` says what it was
};

/// How a value counts; the plural ones are pointers and arrays.
enum class Type : uint8_t { integer, real, integers, reals, bf16s, fp16s, bytes, other };

/// Pointers to numbers of an element type.
constexpr Type pointer_to(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return Type::integers;
    case DType::bf16:
      return Type::bf16s;
    case DType::fp16:
      return Type::fp16s;
    case DType::f32:
      break;
  }
  return Type::reals;
}

struct Expression {
  Kind kind = Kind::other;
  Type type = Type::other;
  bool narrow = false;        ///< an integer of 32 bits
  int64_t integer_value = 0;  ///< of an element that is an array itself: how many numbers it has
  double real_value = 0;
  int slot = -1;
  std::string name;
  std::vector<Expression> args;
  int line = 0;
};

struct Statement {
  enum class Kind : uint8_t {
    block,    ///< `body`
    declare,  ///< `slot` of `type`; `value` if it has one; `elements` > 0: a local array, of `list` if given
    assign,   ///< `target` = `value`, or += if `accumulates`
    loop,     ///< for (`slot` = `value`; slot < `limit`; slot += `step`) `body`; step 0: `increment`, not constant
    branch,   ///< if (`value`) body[0] else body[1]
    call,     ///< `value` for its effects
    leave,    ///< return `value`
    stop,     ///< break
    other,    ///< nothing that generated programs contain; value.name says what it was
  };
  Kind kind = Kind::other;
  Type type = Type::other;
  int slot = -1;
  int64_t elements = 0;
  std::vector<Expression> list;
  bool zeroed = false;  ///< a list is given: what it does not name is 0
  bool shared = false;  ///< by the threads of a block
  Expression target, value, limit, increment;
  bool has_value = false;
  bool accumulates = false;
  int64_t step = 1;
  std::vector<Statement> body;
  int line = 0;
  int number = 0;  ///< position in the function's text order
};

struct Parameter {
  std::string name;
  Type type = Type::other;
  bool writable = false;  ///< a pointer to what is not const
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;  ///< slots 0, 1, ...
  std::vector<std::string> slots;     ///< name of every slot
  Statement body;
  std::string text;  ///< as written
  bool defined = false;
  bool kernel = false;
  int64_t most_threads = 0;  ///< of a kernel's block: __launch_bounds__
  int line = 0;
};

struct Unit {
  std::map<std::string, Function> functions;
  std::map<std::string, std::vector<int64_t>> tables;     ///< constant arrays of integers at file level
  std::map<std::string, std::vector<std::string>> texts;  ///< constant arrays of strings at file level
  std::map<std::string, std::string> records;             ///< text of all other types
  std::vector<std::string> context;                       ///< fields of HetsynthContext, as "long step"
  std::vector<std::string> surprises;  ///< anything else at file level with an effect: "line 3: a global variable"
  std::string errors;                  ///< clang's messages; empty if the text compiles
};

}  // namespace hetsynth::source
