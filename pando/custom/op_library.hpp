// Shared libraries of users' own ops (pando_op.h), checked but not yet known to any registry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pando/custom/pando_op.h"

namespace pando {

class OpLibrary;

struct LibraryAttribute {
  std::string name;
  std::int32_t type = 0;  // PANDO_FLAG ... PANDO_TEXTS
  bool required = true;
  std::string doc;
};

/// An op as its library registered it, with texts of its own.
struct LibraryOp {
  std::string name;
  std::string doc;
  std::vector<LibraryAttribute> attributes;
  /// Numbers and functions. What it points to is the library's and may be gone; use the members
  /// above.
  pando_op_v1 record = {};
  const OpLibrary* library = nullptr;

  bool takes_strides() const { return (record.flags & PANDO_OP_ANY_STRIDES) != 0; }
};

/// A library that is loaded. Closed when it is destroyed, unless it was kept.
class OpLibrary {
 public:
  /// Loads the file `path`, a canonical path, whose hash is `hash`, and has it register its ops.
  /// Throws Error: no shared library, no library of Pando's, another version, what its registration
  /// returned, and a domain or an op that breaks a rule of pando_op.h.
  static std::unique_ptr<OpLibrary> open(const std::string& path, const std::string& hash);
  ~OpLibrary();
  OpLibrary(const OpLibrary&) = delete;
  OpLibrary& operator=(const OpLibrary&) = delete;

  const std::string& path() const { return path_; }
  /// Of the contents of its file: 32 hexadecimal digits.
  const std::string& hash() const { return hash_; }
  /// Of all its ops, and its version; empty and 0: the library names none.
  const std::string& domain() const { return domain_; }
  std::int32_t domain_version() const { return domain_version_; }
  /// In the order of their registration; addresses are stable.
  const std::vector<std::unique_ptr<LibraryOp>>& ops() const { return ops_; }

 private:
  OpLibrary(std::string path, std::string hash) : path_(std::move(path)), hash_(std::move(hash)) {}
  void read_domain();
  void register_ops();
  void check_names() const;

  const std::string path_;
  const std::string hash_;
  void* handle_ = nullptr;
  std::string domain_;
  std::int32_t domain_version_ = 0;
  std::vector<std::unique_ptr<LibraryOp>> ops_;
};

/// The canonical path and the hash of a library's file. Throws Error where it cannot be read.
struct LibraryFile {
  std::string path;
  std::string hash;
};
LibraryFile look_at_library(const std::string& path);

// The libraries of this process. They stay until it ends. Any thread.

/// Keeps a library, whose ops nobody else has.
const OpLibrary& keep_library(std::unique_ptr<OpLibrary> library);
/// The library that was loaded from a path; nullptr if none was.
const OpLibrary* find_library(std::string_view path);
/// The op of a library that was kept; nullptr if there is none.
const LibraryOp* find_library_op(std::string_view name);

}  // namespace pando
