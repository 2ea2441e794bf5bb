#include "pando/custom/op_library.hpp"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"
#include "pando/custom/library_call.hpp"
#include "pando/custom/op_record.hpp"

namespace pando {
namespace {

namespace fs = std::filesystem;

struct KeptLibraries {
  std::mutex mutex;
  std::vector<std::unique_ptr<OpLibrary>> libraries;
};

/// Never destroyed: threads may run ops while the process ends.
KeptLibraries& kept_libraries() {
  static auto* kept = new KeptLibraries;
  return *kept;
}

template <class Function>
Function function_named(void* handle, const char* name, const std::string& path) {
  void* symbol = ::dlsym(handle, name);
  if (symbol == nullptr) {
    throw Error(str_cat("the library ", path, " has no function ", name,
                        ": wanted a library of Pando's ops, with PANDO_OP_LIBRARY of pando_op.h"));
  }
  return reinterpret_cast<Function>(symbol);
}

/// What PANDO_OP_LIBRARY's function calls. No exception may leave it: C code is in between.
struct Registration {
  std::vector<std::unique_ptr<LibraryOp>> ops;
  std::string fault;

  static std::int32_t add(void* state, const pando_op_v1* op) {
    auto& self = *static_cast<Registration*>(state);
    if (!self.fault.empty()) return 1;
    try {
      self.ops.push_back(std::make_unique<LibraryOp>(checked_op(op)));
      return 0;
    } catch (const std::exception& error) {
      self.fault = error.what();
      return 1;
    }
  }
};

}  // namespace

std::unique_ptr<OpLibrary> OpLibrary::open(const std::string& path, const std::string& hash) {
  std::unique_ptr<OpLibrary> library(new OpLibrary(path, hash));
  library->handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* reason = ::dlerror();
    throw Error(str_cat("cannot load the library ", path, ": ",
                        printable(reason == nullptr ? "no reason is given" : reason)));
  }
  using VersionFunction = std::uint32_t (*)();
  const auto version =
      function_named<VersionFunction>(library->handle_, "pando_op_abi_version", path)();
  if (version != PANDO_OP_ABI_VERSION) {
    throw Error(str_cat("the library ", path, " is for another version of pando_op.h: wanted ",
                        PANDO_OP_ABI_VERSION, ", given ", version,
                        ". Compile it with the header of this version of Pando"));
  }
  library->read_domain();
  library->register_ops();
  library->check_names();
  return library;
}

OpLibrary::~OpLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void OpLibrary::read_domain() {
  using DomainFunction = const char* (*)(std::int32_t*);
  const auto domain = reinterpret_cast<DomainFunction>(::dlsym(handle_, "pando_op_domain_v1"));
  if (domain == nullptr) return;
  const char* name = domain(&domain_version_);
  if (name == nullptr || *name == '\0' || domain_version_ < 1) {
    throw Error(str_cat("the library ", path_, " has the domain '",
                        printable(name == nullptr ? "" : name), "' of version ", domain_version_,
                        ": wanted a name and a version from 1 on"));
  }
  domain_ = printable(name);
}

void OpLibrary::register_ops() {
  using RegisterFunction = std::int32_t (*)(const pando_registry_v1*, pando_message_v1*);
  const auto run = function_named<RegisterFunction>(handle_, "pando_register_ops_v1", path_);
  Registration registration;
  const pando_registry_v1 registry{&registration, Registration::add};
  const CallbackResult result =
      call_back([&](pando_message_v1* message) { return run(&registry, message); });
  if (!registration.fault.empty()) {
    throw Error(str_cat("the library ", path_, " registers ", registration.fault));
  }
  if (!result.succeeded()) {
    throw Error(str_cat("the registration of the library ", path_, " ", result.text()));
  }
  if (registration.ops.empty()) throw Error(str_cat("the library ", path_, " registers no ops"));
  ops_ = std::move(registration.ops);
  for (const auto& op : ops_) op->library = this;
}

void OpLibrary::check_names() const {
  std::set<std::string_view> names;
  for (const auto& op : ops_) {
    if (names.insert(op->name).second) continue;
    throw Error(str_cat("the library ", path_, " registers two ops called '", op->name, "'"));
  }
}

LibraryFile look_at_library(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  if (error) {
    throw Error(ErrorCode::NotFound, str_cat("there is no library '", path, "': ", error.message(),
                                             ". Give the path of a file"));
  }
  if (!fs::is_regular_file(canonical, error)) {
    throw Error(str_cat("'", path, "' is no file: wanted a shared library"));
  }
  std::ifstream file(canonical, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error(str_cat("cannot read the library '", path, "'"));
  return {canonical.string(), hash128(bytes).hex()};
}

const OpLibrary& keep_library(std::unique_ptr<OpLibrary> library) {
  KeptLibraries& kept = kept_libraries();
  const std::lock_guard lock(kept.mutex);
  return *kept.libraries.emplace_back(std::move(library));
}

const OpLibrary* find_library(std::string_view path) {
  KeptLibraries& kept = kept_libraries();
  const std::lock_guard lock(kept.mutex);
  for (const auto& library : kept.libraries) {
    if (library->path() == path) return library.get();
  }
  return nullptr;
}

const LibraryOp* find_library_op(std::string_view name) {
  KeptLibraries& kept = kept_libraries();
  const std::lock_guard lock(kept.mutex);
  for (const auto& library : kept.libraries) {
    for (const auto& op : library->ops()) {
      if (op->name == name) return op.get();
    }
  }
  return nullptr;
}

}  // namespace pando
