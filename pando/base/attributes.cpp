#include "pando/base/attributes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "pando/base/error.hpp"

namespace pando {
namespace {

auto lower_bound_of(auto& entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const Attributes::Entry& entry, std::string_view key) {
                            return std::string_view(entry.first) < key;
                          });
}

/// Keeps `entries` sorted.
void put(std::vector<Attributes::Entry>& entries, std::string name, AttributeValue value) {
  const auto it = lower_bound_of(entries, name);
  if (it != entries.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    entries.emplace(it, std::move(name), std::move(value));
  }
}

template <class T>
const T& typed(const Attributes& attributes, std::string_view name) {
  const AttributeValue* value = attributes.find(name);
  if (value == nullptr) throw InternalError(str_cat("attribute '", name, "' is missing"));
  const T* result = std::get_if<T>(value);
  if (result == nullptr) {
    throw InternalError(
        str_cat("attribute '", name, "' has an unexpected type: ", attribute_text(*value)));
  }
  return *result;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  std::string text = buffer;
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class T, class Print>
std::string list_text(const std::vector<T>& values, Print print) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += print(values[i]);
  }
  return text + "]";
}

}  // namespace

Attributes::Attributes(std::initializer_list<Entry> entries)
    : Attributes(of(std::vector<Entry>(entries))) {}

Attributes Attributes::of(std::vector<Entry> entries) {
  std::vector<Entry> sorted;
  sorted.reserve(entries.size());
  for (Entry& entry : entries) put(sorted, std::move(entry.first), std::move(entry.second));
  Attributes attributes;
  attributes.entries_ = std::move(sorted);
  return attributes;
}

void Attributes::set(std::string name, AttributeValue value) {
  std::vector<Entry> changed = entries_.get();
  put(changed, std::move(name), std::move(value));
  entries_ = std::move(changed);
}

void Attributes::erase(std::string_view name) {
  if (!has(name)) return;
  std::vector<Entry> changed = entries_.get();
  changed.erase(lower_bound_of(changed, name));
  entries_ = std::move(changed);
}

const AttributeValue* Attributes::find(std::string_view name) const {
  const std::vector<Entry>& entries = entries_.get();
  const auto it = lower_bound_of(entries, name);
  return it != entries.end() && it->first == name ? &it->second : nullptr;
}

bool Attributes::flag(std::string_view name) const { return typed<bool>(*this, name); }
bool Attributes::flag_or(std::string_view name, bool fallback) const {
  return has(name) ? flag(name) : fallback;
}
std::int64_t Attributes::integer(std::string_view name) const {
  return typed<std::int64_t>(*this, name);
}
std::int64_t Attributes::integer_or(std::string_view name, std::int64_t fallback) const {
  return has(name) ? integer(name) : fallback;
}
double Attributes::number(std::string_view name) const { return typed<double>(*this, name); }
double Attributes::number_or(std::string_view name, double fallback) const {
  return has(name) ? number(name) : fallback;
}
const std::string& Attributes::text(std::string_view name) const {
  return typed<std::string>(*this, name);
}
DType Attributes::dtype(std::string_view name) const { return typed<DType>(*this, name); }
const Ints& Attributes::ints(std::string_view name) const { return typed<Ints>(*this, name); }
const Floats& Attributes::floats(std::string_view name) const { return typed<Floats>(*this, name); }

std::string attribute_text(const AttributeValue& value) {
  struct Printer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return number_text(v); }
    std::string operator()(const std::string& v) const {
      std::string text = "\"";
      for (char c : v) {
        if (c == '"' || c == '\\') text += '\\';
        text += c == '\n' ? std::string("\\n") : std::string(1, c);
      }
      return text + "\"";
    }
    std::string operator()(DType v) const { return std::string(dtype_name(v)); }
    std::string operator()(const Ints& v) const {
      return list_text(v, [](std::int64_t i) { return std::to_string(i); });
    }
    std::string operator()(const Floats& v) const { return list_text(v, number_text); }
    std::string operator()(const Texts& v) const { return list_text(v, *this); }
  };
  return std::visit(Printer{}, value);
}

}  // namespace pando
