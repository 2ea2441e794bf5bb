#include "pando/session/executable_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <system_error>

#include "pando/base/build_id.hpp"
#include "pando/base/error.hpp"

namespace pando {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";  // after that of programs
constexpr std::size_t kKeyDigits = 32;
/// A writer that takes longer than this has died.
constexpr auto kLongestWrite = std::chrono::hours(1);
constexpr std::int64_t kMostFileBytes = std::int64_t{4} << 30;

[[noreturn]] void fail(const char* what, int error) {
  throw Error(str_cat("cannot ", what, ": ", std::generic_category().message(error)));
}

class OpenFile {
 public:
  /// Not open, with `errno` set, when that fails.
  OpenFile(const fs::path& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// Network file systems report some failures of writing here.
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("close it", errno);
  }

 private:
  int descriptor_;
};

/// Not a string, which would be filled with zeros first.
struct FileBytes {
  std::unique_ptr<char[]> data;
  std::size_t size = 0;
  std::string_view view() const { return {data.get(), size}; }
};

/// nullopt when there is none.
std::optional<FileBytes> read_file(const fs::path& path) {
  // Without O_NONBLOCK a pipe of that name would block for ever.
  const OpenFile file(path, O_RDONLY | O_NONBLOCK);
  if (!file.is_open() && errno == ENOENT) return std::nullopt;
  if (!file.is_open()) fail("open it", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("look at it", errno);
  if (!S_ISREG(status.st_mode)) throw Error("it is no regular file");
  if (status.st_size > kMostFileBytes) throw Error(str_cat("it has ", status.st_size, " bytes"));
  const auto size = static_cast<std::size_t>(status.st_size);
  FileBytes bytes{std::make_unique_for_overwrite<char[]>(size)};
  while (bytes.size < size) {
    const ssize_t n = ::read(file.get(), bytes.data.get() + bytes.size, size - bytes.size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read it", errno);
    if (n == 0) break;
    bytes.size += static_cast<std::size_t>(n);
  }
  return bytes;
}

void write_file(const fs::path& path, std::string_view bytes) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open()) fail("create it", errno);
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write it", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(file.get()) != 0) fail("write it", errno);
  file.close();
}

/// `name` is 32 hexadecimal digits and ends with `suffix`, whatever is between.
bool is_cache_name(const std::string& name, std::string_view suffix) {
  return name.size() >= kKeyDigits + suffix.size() && name.ends_with(suffix) &&
         name.find_first_not_of("0123456789abcdef") >= kKeyDigits;
}

enum class FileKind : std::uint8_t { Other, Program, Temporary };

FileKind kind_of(const fs::path& path, const std::string& suffix) {
  const std::string name = path.filename().string();
  if (is_cache_name(name, str_cat(suffix, kTemporarySuffix))) return FileKind::Temporary;
  const bool is_program = is_cache_name(name, suffix) && name.size() == kKeyDigits + suffix.size();
  return is_program ? FileKind::Program : FileKind::Other;
}

/// The programs in a folder; `error` when it cannot be read.
std::vector<CachedProgram> programs_in(const fs::path& folder, const std::string& suffix,
                                       std::error_code& error) {
  std::vector<CachedProgram> programs;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // by another process
    if (kind_of(it->path(), suffix) != FileKind::Program || !it->is_regular_file(gone)) continue;
    const auto used = it->last_write_time(gone);
    const auto bytes = static_cast<std::int64_t>(it->file_size(gone));
    if (!gone) programs.push_back({it->path(), used, bytes});
  }
  return programs;
}

/// What writers that died have left.
void remove_leftovers(const fs::path& folder, const std::string& suffix) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (kind_of(it->path(), suffix) != FileKind::Temporary || !it->is_regular_file(gone)) continue;
    const auto used = it->last_write_time(gone);
    if (!gone && now - used > kLongestWrite) fs::remove(it->path(), gone);
  }
}

}  // namespace

ExecutableCache::ExecutableCache(std::string folder, std::string suffix, std::int64_t limit_bytes,
                                 LogFunction log)
    : folder_(std::move(folder)),
      suffix_(std::move(suffix)),
      limit_bytes_(limit_bytes),
      log_(std::move(log)) {
  if (suffix_.size() < 2 || suffix_[0] != '.' || suffix_.find('/') != std::string::npos) {
    throw ValueError(str_cat("wanted a suffix for files of the cache, like ", kCacheSuffix,
                             "; given '", suffix_, "'"));
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    warn(folder_, str_cat("cannot make the folder: ", error.message()));
  } else if (build_id().empty()) {
    warn(folder_, "this build of Pando has no build id to know its programs by");
  } else {
    usable_ = true;
  }
}

fs::path ExecutableCache::file_of(const Hash128& key) const {
  return folder_ / str_cat(key.hex(), suffix_);
}

void ExecutableCache::warn(const fs::path& file, const std::string& problem) const {
  if (!log_) return;
  log_(LogLevel::Warning, str_cat("The executable cache is not used: ", file.string(), ": ",
                                  problem, ". The program is compiled."));
}

std::optional<Executable> ExecutableCache::load(const Hash128& key, const Ir& ir,
                                                const std::string& target) const {
  if (!usable_) return std::nullopt;
  const fs::path file = file_of(key);
  try {
    const std::optional<FileBytes> bytes = read_file(file);
    if (!bytes) return std::nullopt;
    Executable executable = deserialise_executable(bytes->view(), key, ir);
    if (executable.target() != target) {
      throw Error(str_cat("it is for another target: wanted '", target, "', given '",
                          executable.target(), "'"));
    }
    std::error_code error;
    // Marks it as used. In a folder of somebody else's that is not ours to do, and not needed.
    fs::last_write_time(file, fs::file_time_type::clock::now(), error);
    return executable;
  } catch (const std::exception& problem) {
    warn(file, problem.what());
    return std::nullopt;
  }
}

void ExecutableCache::store(const Hash128& key, const Executable& executable, const Ir& ir) const {
  if (!usable_) return;
  const fs::path file = file_of(key);
  fs::path temporary;
  try {
    // Unlike process numbers unique across the machines that share a folder.
    std::random_device random;
    temporary =
        folder_ / str_cat(key.hex(), ".", random(), ".", random(), suffix_, kTemporarySuffix);
    const std::string bytes = serialise_executable(key, executable, ir);
    const auto size = static_cast<std::int64_t>(bytes.size());
    const std::int64_t most =
        limit_bytes_ > 0 ? std::min(limit_bytes_, kMostFileBytes) : kMostFileBytes;
    if (size > most) {
      throw Error(str_cat("the program has ", size, " bytes; the cache may have ", most));
    }
    write_file(temporary, bytes);
    fs::rename(temporary, file);
  } catch (const std::exception& problem) {
    std::error_code error;
    fs::remove(temporary, error);
    return warn(file, problem.what());
  }
  trim(file);
}

void ExecutableCache::trim(const fs::path& newest) const {
  if (limit_bytes_ <= 0) return;
  remove_leftovers(folder_, suffix_);
  std::error_code unreadable;
  std::vector<CachedProgram> entries = programs_in(folder_, suffix_, unreadable);
  std::int64_t total = 0;
  for (const CachedProgram& entry : entries) total += entry.bytes;
  std::sort(entries.begin(), entries.end(),
            [](const CachedProgram& a, const CachedProgram& b) { return a.used < b.used; });
  for (const CachedProgram& entry : entries) {
    if (total <= limit_bytes_) return;
    if (entry.path == newest) continue;
    std::error_code error;
    if (fs::remove(entry.path, error)) total -= entry.bytes;
  }
}

std::vector<CachedProgram> cached_programs(const fs::path& folder, const std::string& suffix) {
  std::error_code error;
  std::vector<CachedProgram> programs = programs_in(folder, suffix, error);
  if (error)
    throw Error(str_cat("cannot read the folder ", folder.string(), ": ", error.message()));
  std::sort(programs.begin(), programs.end(), [](const CachedProgram& a, const CachedProgram& b) {
    return a.path.filename() < b.path.filename();
  });
  return programs;
}

std::string cached_program_fault(const fs::path& file) {
  try {
    const std::optional<FileBytes> bytes = read_file(file);
    if (!bytes) return "there is no such file";
    const std::string key = check_executable(bytes->view()).hex();
    if (key != file.stem().string()) return str_cat("it holds the program ", key);
    return "";
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

std::size_t clear_cached_programs(const fs::path& folder, const std::string& suffix) {
  std::size_t removed = 0;
  for (const CachedProgram& program : cached_programs(folder, suffix)) {
    std::error_code error;
    removed += fs::remove(program.path, error) ? 1U : 0U;
    if (error) throw Error(str_cat("cannot remove ", program.path.string(), ": ", error.message()));
  }
  remove_leftovers(folder, suffix);
  return removed;
}

}  // namespace pando
