// Per-element bodies written as formulas: `x * sigmoid(x)`.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "pando/base/scalar_program.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {

/// A value of a scalar program under construction. Operators take two values of one lane type; a
/// double becomes a constant in the lane type of the other operand.
class Scalar {
 public:
  Scalar(ScalarEmitter& emitter, ScalarValue value) : emitter_(&emitter), value_(value) {}

  ScalarValue value() const { return value_; }
  ScalarEmitter& emitter() const { return *emitter_; }
  /// False for an optional input that is not connected.
  bool connected() const { return value_ != kNoValue; }
  LaneType lane() const { return emitter_->lane(value_); }
  bool is_float() const { return lane() == LaneType::F32 || lane() == LaneType::F64; }

  Scalar constant(double number) const {
    return {*emitter_, emitter_->constant_like(number, value_)};
  }
  Scalar integer(std::int64_t number, LaneType lane) const {
    return {*emitter_, emitter_->integer_constant(number, lane)};
  }
  Scalar convert(LaneType lane) const { return {*emitter_, emitter_->convert(value_, lane)}; }
  /// The value as it reads back after being stored as `dtype`.
  Scalar as_dtype(DType dtype) const { return {*emitter_, emitter_->as_dtype(value_, dtype)}; }

  Scalar unary(ScalarOp op) const { return {*emitter_, emitter_->emit(op, value_)}; }
  Scalar binary(ScalarOp op, Scalar other) const {
    return {*emitter_, emitter_->emit(op, value_, other.value_)};
  }

  Scalar operator-() const { return unary(ScalarOp::Neg); }
  friend Scalar operator+(Scalar a, Scalar b) { return a.binary(ScalarOp::Add, b); }
  friend Scalar operator-(Scalar a, Scalar b) { return a.binary(ScalarOp::Sub, b); }
  friend Scalar operator*(Scalar a, Scalar b) { return a.binary(ScalarOp::Mul, b); }
  friend Scalar operator/(Scalar a, Scalar b) { return a.binary(ScalarOp::Div, b); }
  friend Scalar operator+(Scalar a, double b) { return a + a.constant(b); }
  friend Scalar operator-(Scalar a, double b) { return a - a.constant(b); }
  friend Scalar operator*(Scalar a, double b) { return a * a.constant(b); }
  friend Scalar operator/(Scalar a, double b) { return a / a.constant(b); }
  friend Scalar operator+(double a, Scalar b) { return b.constant(a) + b; }
  friend Scalar operator-(double a, Scalar b) { return b.constant(a) - b; }
  friend Scalar operator*(double a, Scalar b) { return b.constant(a) * b; }
  friend Scalar operator/(double a, Scalar b) { return b.constant(a) / b; }

  // Comparisons and logic give I32 values 0 or 1.
  friend Scalar operator==(Scalar a, Scalar b) { return a.binary(ScalarOp::Equal, b); }
  friend Scalar operator==(Scalar a, double b) { return a == a.constant(b); }
  friend Scalar operator<(Scalar a, Scalar b) { return a.binary(ScalarOp::Less, b); }
  friend Scalar operator<(double a, Scalar b) { return b.constant(a) < b; }
  friend Scalar operator>(Scalar a, Scalar b) { return b < a; }
  friend Scalar operator<=(Scalar a, Scalar b) { return a.binary(ScalarOp::LessEqual, b); }
  friend Scalar operator<=(double a, Scalar b) { return b.constant(a) <= b; }
  friend Scalar operator!(Scalar a) { return a.binary(ScalarOp::Xor, a.constant(1)); }
  friend Scalar operator&(Scalar a, Scalar b) { return a.binary(ScalarOp::And, b); }
  friend Scalar operator|(Scalar a, Scalar b) { return a.binary(ScalarOp::Or, b); }

 private:
  ScalarEmitter* emitter_;
  ScalarValue value_;
};

inline Scalar min(Scalar a, Scalar b) { return a.binary(ScalarOp::Min, b); }
inline Scalar max(Scalar a, Scalar b) { return a.binary(ScalarOp::Max, b); }
inline Scalar rem(Scalar a, Scalar b) { return a.binary(ScalarOp::Rem, b); }
inline Scalar pow(Scalar a, Scalar b) { return a.binary(ScalarOp::Pow, b); }
inline Scalar abs(Scalar a) { return a.unary(ScalarOp::Abs); }
inline Scalar sign(Scalar a) { return a.unary(ScalarOp::Sign); }
inline Scalar exp(Scalar a) { return a.unary(ScalarOp::Exp); }
inline Scalar log(Scalar a) { return a.unary(ScalarOp::Log); }
inline Scalar sqrt(Scalar a) { return a.unary(ScalarOp::Sqrt); }
inline Scalar tanh(Scalar a) { return a.unary(ScalarOp::Tanh); }
inline Scalar sigmoid(Scalar a) { return a.unary(ScalarOp::Sigmoid); }
inline Scalar erf(Scalar a) { return a.unary(ScalarOp::Erf); }
inline Scalar erfc(Scalar a) { return a.unary(ScalarOp::Erfc); }
inline Scalar log1p(Scalar a) { return a.unary(ScalarOp::Log1p); }
inline Scalar expm1(Scalar a) { return a.unary(ScalarOp::Expm1); }
inline Scalar atan(Scalar a) { return a.unary(ScalarOp::Atan); }
inline Scalar sin(Scalar a) { return a.unary(ScalarOp::Sin); }
inline Scalar cos(Scalar a) { return a.unary(ScalarOp::Cos); }
inline Scalar floor(Scalar a) { return a.unary(ScalarOp::Floor); }
inline Scalar ceil(Scalar a) { return a.unary(ScalarOp::Ceil); }
inline Scalar is_nan(Scalar a) { return a.unary(ScalarOp::IsNan); }
inline Scalar is_inf(Scalar a) { return a.unary(ScalarOp::IsInf); }
/// a * b + c; floats with one rounding.
inline Scalar fma(Scalar a, Scalar b, Scalar c) {
  return {a.emitter(), a.emitter().emit(ScalarOp::Fma, a.value(), b.value(), c.value())};
}
/// condition (I32) != 0 ? yes : no
inline Scalar select(Scalar condition, Scalar yes, Scalar no) {
  ScalarEmitter& emitter = condition.emitter();
  return {emitter, emitter.emit(ScalarOp::Select, condition.value(), yes.value(), no.value())};
}

using ScalarBody = std::function<std::vector<ScalarValue>(ScalarEmitter&, const Op&,
                                                          std::span<const ScalarValue>)>;
/// The body of an op with one output; `inputs[i]` is not connected() where the op's input is not.
using ScalarFormula = std::function<Scalar(const Op&, std::span<const Scalar> inputs)>;

ScalarBody pointwise(ScalarFormula formula);
/// The body of an op with one input.
ScalarBody pointwise_unary(std::function<Scalar(Scalar)> formula);
/// The body of an op with two inputs.
ScalarBody pointwise_binary(std::function<Scalar(Scalar, Scalar)> formula);

}  // namespace pando
