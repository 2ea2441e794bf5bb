#include "pando/runtime/print_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando {
namespace {

template <class T>
T read(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

double float_at(DType dtype, const std::byte* data, std::int64_t i) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16:
      return half_precision_to_float(read<std::uint16_t>(data, i), dtype);
    case DType::Float8_143:
    case DType::Float8_152:
      return float8_to_float(read<std::uint8_t>(data, i), dtype);
    case DType::Float64:
      return read<double>(data, i);
    default:
      return read<float>(data, i);
  }
}

std::string integer_text(DType dtype, const std::byte* data, std::int64_t i) {
  switch (dtype) {
    case DType::Bool:
      return read<std::uint8_t>(data, i) != 0 ? "1" : "0";
    case DType::Int8:
      return std::to_string(read<std::int8_t>(data, i));
    case DType::Int16:
      return std::to_string(read<std::int16_t>(data, i));
    case DType::Int32:
      return std::to_string(read<std::int32_t>(data, i));
    case DType::Int64:
      return std::to_string(read<std::int64_t>(data, i));
    case DType::UInt8:
      return std::to_string(read<std::uint8_t>(data, i));
    case DType::UInt16:
      return std::to_string(read<std::uint16_t>(data, i));
    case DType::UInt32:
      return std::to_string(read<std::uint32_t>(data, i));
    default:
      return std::to_string(read<std::uint64_t>(data, i));
  }
}

class TensorWriter {
 public:
  TensorWriter(const PrintDesc& print, const std::byte* data) : print_(print), data_(data) {
    const Attributes& format = print.format;
    const auto text_or = [&](const char* name, const char* fallback) {
      return format.has(name) ? format.text(name) : std::string(fallback);
    };
    digits_ = static_cast<int>(format.integer_or("digits", 8));
    edge_items_ = format.integer_or("edge_items", 3);
    max_line_width_ = static_cast<std::size_t>(format.integer_or("max_line_width", 75));
    separator_ = text_or("separator", " ");
    open_ = text_or("open_bracket", "[");
    close_ = text_or("close_bracket", "]");
    const std::int64_t threshold = format.integer_or("summarise_threshold", 1000);
    const std::int64_t count = num_elements(print.shape);
    summarise_ = threshold > 0 && count > threshold;
    const std::string style = text_or("float_format", "auto");
    scientific_ = style == "scientific" || (style == "auto" && wants_scientific(count));
    plain_ = style == "none" || digits_ == 0;
  }

  std::string text() {
    if (print_.shape.empty()) return element(0);
    measure(0, 0);
    std::string result;
    append(result, 0, 0, 0);
    return result;
  }

 private:
  bool wants_scientific(std::int64_t count) const {
    if (!is_floating_point(print_.dtype)) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      const double magnitude = std::fabs(float_at(print_.dtype, data_, i));
      if (!std::isfinite(magnitude) || magnitude == 0.0) continue;
      if (magnitude < 1e-4 || magnitude >= 1e6) return true;
    }
    return false;
  }

  std::string element(std::int64_t index) const {
    if (!is_floating_point(print_.dtype)) return integer_text(print_.dtype, data_, index);
    const double value = float_at(print_.dtype, data_, index);
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    if (plain_) {
      std::snprintf(buffer, sizeof buffer, "%g", value);
      return buffer;
    }
    int before = 1;
    double rest = scientific_ ? 0.0 : std::fabs(value);
    while (rest >= 10.0) {
      rest /= 10.0;
      ++before;
    }
    const int after = std::max(1, digits_ - before);
    std::snprintf(buffer, sizeof buffer, scientific_ ? "%.*e" : "%.*f", after, value);
    return buffer;
  }

  bool hidden(std::int64_t i, std::int64_t size) const {
    return summarise_ && size > 2 * edge_items_ && i >= edge_items_ && i < size - edge_items_;
  }

  /// Width of the widest element shown.
  void measure(std::size_t dim, std::int64_t offset) {
    const std::int64_t size = print_.shape[dim];
    const std::int64_t stride = contiguous_strides(print_.shape)[dim];
    for (std::int64_t i = 0; i < size; ++i) {
      if (hidden(i, size)) continue;
      if (dim + 1 < print_.shape.size()) {
        measure(dim + 1, offset + i * stride);
      } else if (!plain_) {
        width_ = std::max(width_, element(offset + i).size());
      }
    }
  }

  void append(std::string& out, std::size_t dim, std::int64_t offset, std::size_t indent) const {
    const bool innermost = dim + 1 == print_.shape.size();
    const std::int64_t size = print_.shape[dim];
    const std::int64_t stride = contiguous_strides(print_.shape)[dim];
    const std::string margin(indent + 1, ' ');
    out += open_;
    if (!innermost) out += "\n";
    std::size_t line_start = out.size();
    bool skipped = false;
    for (std::int64_t i = 0; i < size; ++i) {
      if (hidden(i, size)) {
        if (!skipped) out += innermost ? separator_ + "..." : margin + "...\n";
        skipped = true;
        continue;
      }
      if (!innermost) {
        out += margin;
        append(out, dim + 1, offset + i * stride, indent + 1);
        out += "\n";
        continue;
      }
      std::string item = element(offset + i);
      item.insert(0, width_ > item.size() ? width_ - item.size() : 0, ' ');
      if (i > 0) out += separator_;
      if (max_line_width_ > 0 && out.size() - line_start + item.size() > max_line_width_ && i > 0) {
        out += "\n" + margin;
        line_start = out.size() - margin.size();
      }
      out += item;
    }
    if (!innermost) out += std::string(indent, ' ');
    out += close_;
  }

  const PrintDesc& print_;
  const std::byte* data_;
  int digits_ = 8;
  std::int64_t edge_items_ = 3;
  std::size_t max_line_width_ = 75;
  std::string separator_, open_, close_;
  bool summarise_ = false;
  bool scientific_ = false;
  bool plain_ = false;
  std::size_t width_ = 0;
};

}  // namespace

std::string tensor_text(const PrintDesc& print, const std::byte* data) {
  return print.title + ": " + TensorWriter(print, data).text() + "\n\n";
}

void print_tensor(const PrintDesc& print, const std::byte* data) {
  const std::string text = tensor_text(print, data);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace pando
