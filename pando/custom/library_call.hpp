// Calls of the functions of an op's library.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/attributes.hpp"
#include "pando/base/error.hpp"
#include "pando/base/shape.hpp"
#include "pando/custom/op_library.hpp"

namespace pando {

/// The text with `?` for what is not UTF-8, and for control characters but line ends.
std::string printable(std::string_view text);

/// The code of pando_op.h for a dtype.
std::int32_t dtype_code(DType dtype);
/// False for a code that stands for none.
bool dtype_of_code(std::int32_t code, DType& dtype);

/// What a function of a library returned and wrote.
class CallbackResult {
 public:
  CallbackResult() { message_[0] = '\0'; }
  bool succeeded() const { return status_ == 0 && !threw_; }
  /// `returned 3: text`, or `threw an exception: text`.
  std::string text() const;

 private:
  template <class Work>
  friend CallbackResult call_back(Work work);

  std::int32_t status_ = 0;
  bool threw_ = false;
  std::array<char, 1024> message_;
};

/// Runs `work` with room for a message; it returns the status. Exceptions end here.
template <class Work>
CallbackResult call_back(Work work) {
  CallbackResult result;
  pando_message_v1 message{result.message_.data(), result.message_.size()};
  try {
    result.status_ = work(&message);
  } catch (const std::exception& error) {
    result.threw_ = true;
    const std::string_view what = error.what();
    result.message_[what.copy(result.message_.data(), result.message_.size() - 1)] = '\0';
  } catch (...) {
    result.threw_ = true;
  }
  return result;
}

/// Throws Error of `code` unless the result is a success: `SITE: FUNCTION of the library PATH ...`.
void check_result(const CallbackResult& result, const LibraryOp& op, const char* function,
                  const std::string& site, ErrorCode code);

/// What the functions of a library are told of one op. Stays where it is made: it points into
/// itself.
class LibraryCall {
 public:
  /// `attributes`: with values of the declared types. Others are left out.
  LibraryCall(const LibraryOp& op, Attributes attributes);
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  /// Inputs first. Throws Error for more dimensions than the interface has.
  void add_input(DType dtype, const Shape& shape, const Strides& strides);
  void add_absent_input();
  void add_output(DType dtype, const Shape& shape);

  const LibraryOp& op() const { return op_; }
  /// Inputs, then outputs, without data.
  const std::vector<pando_tensor_v1>& tensors() const { return tensors_; }
  /// Good until something is added.
  pando_call_v1 call() const { return call_with(tensors_.data()); }
  /// With a changed copy of the tensors.
  pando_call_v1 call_with(const pando_tensor_v1* tensors) const;

 private:
  void add(DType dtype, const Shape& shape, const Strides& strides);

  const LibraryOp& op_;
  const Attributes attributes_;
  std::vector<pando_value_v1> values_;
  std::deque<std::string> joined_texts_;           // of lists, as pando_op.h has them
  std::deque<std::vector<std::int64_t>> numbers_;  // shapes and strides
  std::vector<pando_tensor_v1> tensors_;
  std::int32_t num_inputs_ = 0;
};

}  // namespace pando
