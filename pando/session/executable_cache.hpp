// Compiled programs on disk, so that a later process need not compile.
//
// A folder holds one file per program, the key and a suffix: a container of base/byte_stream.hpp
// with the key, the values that the compiler made, and the program. Files come into being by a
// rename, so several processes may use a folder at the same time. Nothing that is wrong with a
// folder or a file stops a session: it is told to `log`, and the program is compiled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/hash.hpp"
#include "pando/base/log.hpp"
#include "pando/ir/graph.hpp"
#include "pando/session/executable.hpp"

namespace pando {

class Target;
struct CompilerOptions;

/// The hash of everything that an executable depends on: the Ir without the values of its variables
/// but with its source locations (errors and traces name them), the libraries of its ops, options,
/// the target with its threads and this machine's processor, and the build of this library.
Hash128 executable_key(const Ir& ir, const CompilerOptions& options, const Target& target);

/// What names of files end with unless a front end wants another suffix.
inline constexpr const char* kCacheSuffix = ".pando";

class ExecutableCache {
 public:
  /// The folder is made if need be. `suffix`: of the names of files, which begin with the key.
  /// `limit_bytes`: of all files together, 0 for none.
  ExecutableCache(std::string folder, std::string suffix, std::int64_t limit_bytes,
                  LogFunction log);

  /// False where nothing can be kept: the folder cannot be made, or this build has no build id.
  bool is_usable() const { return usable_; }
  std::filesystem::path file_of(const Hash128& key) const;

  /// The executable of `key` for the target of this identity, if it is there and sound. Values of
  /// the constants of `ir` are taken from there.
  std::optional<Executable> load(const Hash128& key, const Ir& ir, const std::string& target) const;
  /// Writes the executable, then removes the files that were not used for longest while all of them
  /// are larger than the limit.
  void store(const Hash128& key, const Executable& executable, const Ir& ir) const;

 private:
  void warn(const std::filesystem::path& file, const std::string& problem) const;
  void trim(const std::filesystem::path& newest) const;

  std::filesystem::path folder_;
  std::string suffix_;
  std::int64_t limit_bytes_;
  LogFunction log_;
  bool usable_ = false;
};

/// A program in a folder of the cache.
struct CachedProgram {
  std::filesystem::path path;
  std::filesystem::file_time_type used;  // when it was written or last read
  std::int64_t bytes = 0;
};

/// The programs of a folder in files of this suffix, by name; other files are left out. Throws
/// Error (a folder that cannot be read).
std::vector<CachedProgram> cached_programs(const std::filesystem::path& folder,
                                           const std::string& suffix = kCacheSuffix);
/// Reads a whole program; says what is wrong with it, or nothing. Programs of other builds are as
/// good as those of this one if it can read them.
std::string cached_program_fault(const std::filesystem::path& file);
/// Removes the programs of a folder, and what writers that died have left; other files stay. The
/// number of programs removed. Throws Error.
std::size_t clear_cached_programs(const std::filesystem::path& folder,
                                  const std::string& suffix = kCacheSuffix);

/// The contents of a cache file.
std::string serialise_executable(const Hash128& key, const Executable& executable, const Ir& ir);
/// Throws Error for bytes that are damaged, of another version or key, or do not fit `ir`.
Executable deserialise_executable(std::string_view bytes, const Hash128& key, const Ir& ir);
/// The key of a file, all of which is checked but for what needs the Ir. Throws Error.
Hash128 check_executable(std::string_view bytes);

}  // namespace pando
