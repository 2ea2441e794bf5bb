// Compiled programs on disk: what a key covers, damage, other writers, the limit.
#include "pando/session/executable_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "pando/base/build_id.hpp"
#include "pando/program/check.hpp"
#include "pando/program/serialise.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

namespace fs = std::filesystem;

class ExecutableCacheTest : public ::testing::Test {
 protected:
  ExecutableCacheTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::temp_directory_path() / str_cat("pando_cache_", test->name(), "_", ::getpid());
    fs::remove_all(folder);
  }
  ~ExecutableCacheTest() override { fs::remove_all(folder); }

  SessionOptions options() {
    SessionOptions result;
    result.num_threads = 1;
    result.cache_folder = folder.string();
    result.log = [this](LogLevel level, const std::string& message) {
      (level == LogLevel::Warning ? warnings : notes).push_back(message);
    };
    return result;
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> result;
    for (const auto& entry : fs::directory_iterator(folder)) result.push_back(entry.path());
    return result;
  }

  fs::path folder;
  std::vector<std::string> warnings, notes;
};

/// Stores (v + [1, 2]) * [3, 3] + (1 + 2): one constant of the Ir and one that is folded.
std::unique_ptr<Ir> small_program(float first = 5.0f, float constant = 1.0f, int line = 7) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  OpBuilder ops(main, {.name = "op", .location = {"model.py", line, "build"}});
  const float added[] = {constant, 2.0f};
  Tensor* v = variable(main, "v", {first, 6.0f}, {2});
  Tensor* sum = ops.make("Add", {v, ops.constant({DType::Float32, {2}, {}}, added)});
  const float factors[] = {1.0f, 2.0f};
  Tensor* known = ops.constant({DType::Float32, {2}, {}}, factors);
  store(main, ops.make("Mul", {sum, ops.make("Add", {known, known})}));
  return ir;
}

std::vector<float> result_of(Session& session) {
  std::vector<float> result(2);
  session.attach();
  session.weights_from_host();
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_F(ExecutableCacheTest, ASecondSessionReadsWhatTheFirstCompiled) {
  Session first(*small_program(), options());
  EXPECT_EQ(first.compile_report().cache_file, "");
  EXPECT_EQ(notes, std::vector<std::string>{"Starting compilation"});
  ASSERT_EQ(files().size(), 1u);
  Session second(*small_program(-5.0f), options());
  EXPECT_EQ(second.compile_report().cache_file, files()[0].string());
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(serialise_program(second.program()), serialise_program(first.program()));
  EXPECT_EQ(result_of(first), (std::vector<float>{12.0f, 32.0f}));
  EXPECT_EQ(result_of(second), (std::vector<float>{-8.0f, 32.0f}));
  EXPECT_EQ(second.trace().size(), first.trace().size());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ExecutableCacheTest, NothingIsKeptWithoutAFolder) {
  SessionOptions plain = options();
  plain.cache_folder.clear();
  const Session session(*small_program(), plain);
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(ExecutableCacheTest, TheKeyCoversWhatTheProgramDependsOn) {
  const auto key = [&](const Ir& ir, const std::function<void(SessionOptions&)>& change) {
    SessionOptions changed = options();
    change(changed);
    const Session session(ir, changed);
    return files().size();
  };
  const auto same = [](SessionOptions&) {};
  EXPECT_EQ(key(*small_program(), same), 1u);
  EXPECT_EQ(key(*small_program(9.0f), same), 1u) << "a variable's value";
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.profile = true; }), 1u);
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.collective_timeout_seconds = 3; }), 1u);
  EXPECT_EQ(key(*small_program(5.0f, 4.0f), same), 2u) << "a constant's value";
  EXPECT_EQ(key(*small_program(5.0f, 1.0f, 8), same), 3u) << "a source line";
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.num_threads = 2; }), 4u);
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.stable_softmax = false; }), 5u);
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.check_log2_scales = false; }), 6u);
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.check_inplace_ambiguity = false; }), 7u);
  auto transfers = small_program();
  transfers->num_host_transfers = 2;
  EXPECT_EQ(key(*transfers, same), 8u);
  EXPECT_EQ(key(*small_program(), same), 8u);
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.memory_limit_bytes = kLimit; }), 9u);
  EXPECT_EQ(key(*small_program(), [](auto& o) { o.device_memory_limit_bytes = kLimit; }), 10u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ExecutableCacheTest, AMemoryLimitHoldsForAStoredProgram) {
  const Session session(*small_program(), options());
  SessionOptions limited = options();
  limited.memory_limit_bytes = 1;
  EXPECT_THROW(Session(*small_program(), limited), OutOfMemory);
}

TEST_F(ExecutableCacheTest, DamageOfAnyByteIsNoticed) {
  const auto ir = small_program();
  const Session session(*ir, options());
  const std::string bytes = contents(files().at(0));
  const std::string name = files()[0].stem().string();
  Hash128 key;
  key.high = std::stoull(name.substr(0, 16), nullptr, 16);
  key.low = std::stoull(name.substr(16), nullptr, 16);
  ASSERT_EQ(key.hex(), name);
  EXPECT_NO_THROW(deserialise_executable(bytes, key, *ir));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char flip : {1, 16, -1}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      ASSERT_NE(error_of([&] { deserialise_executable(changed, key, *ir); }), "no error") << at;
    }
    ASSERT_NE(error_of([&] { deserialise_executable(bytes.substr(0, at), key, *ir); }), "no error");
  }
  ASSERT_NE(error_of([&] { deserialise_executable(bytes + '\0', key, *ir); }), "no error");
  key.low ^= 1;
  EXPECT_NE(error_of([&] {
              deserialise_executable(bytes, key, *ir);
            }).find("Cache file hash did not match the IR hash"),
            std::string::npos);
}

/// What a faulty writer might make: refused, or a program whose references all lead somewhere.
TEST_F(ExecutableCacheTest, DamageUnderARightChecksumIsReadWithinBounds) {
  const auto ir = small_program();
  const Hash128 key{1, 2};
  const Session session(*ir, options());
  const std::string bytes = serialise_executable(key, {session.program(), {}, "cpu"}, *ir);
  const std::size_t covered = bytes.size() - sizeof(std::uint64_t);
  int refused = 0;
  for (std::size_t at = 0; at < covered; ++at) {
    for (const char flip : {1, 64, -128, -1}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const std::uint64_t hash = hash64(std::string_view(changed).substr(0, covered));
      std::memcpy(changed.data() + covered, &hash, sizeof hash);
      try {
        check_program(deserialise_executable(changed, key, *ir).program());
      } catch (const std::exception&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(covered));
}

TEST_F(ExecutableCacheTest, AnUnsoundFileIsCompiledAnewWithAWarning) {
  { const Session session(*small_program(), options()); }
  const fs::path file = files().at(0);
  const std::string sound = contents(file);
  std::string flipped = sound;
  flipped[sound.size() / 2] ^= 4;
  for (const std::string& bytes :
       {std::string(), std::string("PANDOEXE"), sound.substr(0, sound.size() - 1), flipped,
        serialise_program(Session(*small_program()).program())}) {
    write(file, bytes);
    warnings.clear();
    Session session(*small_program(), options());
    EXPECT_EQ(session.compile_report().cache_file, "");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(file.string()), std::string::npos) << warnings[0];
    EXPECT_EQ(result_of(session), (std::vector<float>{12.0f, 32.0f}));
    EXPECT_EQ(contents(file), sound) << "written again";
  }
}

/// With a right checksum, as only a faulty writer makes it.
TEST_F(ExecutableCacheTest, AProgramOfAnotherIrIsRefused) {
  const auto ir = small_program();
  const Session session(*ir, options());
  const Hash128 key{1, 2};
  Program program = session.program();
  std::vector<ProgramConstant> constants;
  ASSERT_FALSE(program.persistent.empty());
  const auto refusal = [&] {
    const Executable executable(program, constants, session.executable().target());
    const std::string bytes = serialise_executable(key, executable, *ir);
    return error_of([&] { deserialise_executable(bytes, key, *ir); });
  };
  EXPECT_EQ(refusal(), "no error");
  constants = {{100, HostArray::allocate(8)}};
  EXPECT_NE(refusal().find("an unknown constant"), std::string::npos);
  for (std::size_t i = 0; i < program.persistent.size(); ++i) {
    constants = {{i, HostArray::allocate(12)}};
    EXPECT_NE(refusal(), "no error");
  }
  constants.clear();
  for (PersistentTensor& tensor : program.persistent) {
    if (tensor.is_variable) tensor.id = "other";
  }
  EXPECT_NE(refusal().find("a variable that the Ir does not have"), std::string::npos);
}

TEST_F(ExecutableCacheTest, AProgramForAnotherTargetIsCompiledAnew) {
  { const Session session(*small_program(), options()); }
  const fs::path file = files().at(0);
  const std::string sound = contents(file);
  const auto ir = small_program();
  const Hash128 key = check_executable(sound);
  const Executable given = deserialise_executable(sound, key, *ir);
  write(file, serialise_executable(key, {given.program(), given.constants(), "others"}, *ir));
  Session session(*ir, options());
  EXPECT_EQ(session.compile_report().cache_file, "");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("given 'others'"), std::string::npos) << warnings[0];
  EXPECT_EQ(result_of(session), (std::vector<float>{12.0f, 32.0f}));
  EXPECT_EQ(contents(file), sound);
}

TEST_F(ExecutableCacheTest, AFolderThatCannotBeUsedIsNamedAndTheProgramCompiled) {
  write(folder, "a file");
  SessionOptions in_file = options();
  for (const std::string& path : {folder.string(), (folder / "below").string()}) {
    warnings.clear();
    in_file.cache_folder = path;
    Session session(*small_program(), in_file);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(path + ": cannot make the folder: Not a directory"),
              std::string::npos)
        << warnings[0];
    EXPECT_EQ(result_of(session), (std::vector<float>{12.0f, 32.0f}));
  }
}

TEST_F(ExecutableCacheTest, WhatIsNoRegularFileDoesNotBlock) {
  { const Session session(*small_program(), options()); }
  const fs::path file = files().at(0);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const Session session(*small_program(), options());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("it is no regular file"), std::string::npos);
  EXPECT_TRUE(fs::is_regular_file(file));
}

TEST_F(ExecutableCacheTest, ThreadsMayShareAFolder) {
  constexpr int kRounds = 40;
  const auto work = [&](std::vector<std::string>& problems, int offset) {
    for (int i = 0; i < kRounds; ++i) {
      SessionOptions own;
      own.num_threads = 1;
      own.cache_folder = folder.string();
      own.log = [&](LogLevel level, const std::string& message) {
        if (level == LogLevel::Warning) problems.push_back(message);
      };
      Session session(*small_program(5.0f, static_cast<float>((i + offset) % 3)), own);
      const float wanted = (5.0f + static_cast<float>((i + offset) % 3)) * 2.0f;
      if (result_of(session)[0] != wanted) problems.push_back(str_cat("round ", i));
      if (i % 5 == offset) fs::remove(session.compile_report().cache_file);
    }
  };
  std::vector<std::string> problems[2];
  std::thread other([&] { work(problems[1], 1); });
  work(problems[0], 0);
  other.join();
  for (const auto& list : problems) EXPECT_EQ(list, std::vector<std::string>());
  for (const fs::path& file : files()) EXPECT_EQ(file.extension(), ".pando");
}

TEST_F(ExecutableCacheTest, TheProgramsNotUsedForLongestGo) {
  const auto use = [&](float constant, std::int64_t limit) {
    SessionOptions limited = options();
    limited.cache_limit_bytes = limit;
    const Session session(*small_program(5.0f, constant), limited);
    return !session.compile_report().cache_file.empty();
  };
  EXPECT_FALSE(use(1.0f, 0));
  const auto bytes = static_cast<std::int64_t>(fs::file_size(files().at(0)));
  const auto age = [&](const fs::path& file, int hours) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  age(files()[0], 5);
  const fs::path first = files()[0];
  EXPECT_FALSE(use(2.0f, 0));
  for (const fs::path& file : files()) {
    if (file != first) age(file, 4);
  }
  EXPECT_TRUE(use(1.0f, 0)) << "now the second is the older one";
  write(folder / "notes.txt", std::string(1000, ' '));
  const fs::path left_over = folder / (std::string(32, 'a') + ".1.2.pando.tmp");
  write(left_over, "half");
  age(left_over, 2);
  EXPECT_FALSE(use(3.0f, 2 * bytes + bytes / 2));
  EXPECT_TRUE(use(1.0f, 0));
  EXPECT_TRUE(use(3.0f, 0));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  EXPECT_FALSE(fs::exists(left_over));
  EXPECT_EQ(files().size(), 3u);
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(use(4.0f, 10)) << "larger than the whole cache";
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the cache may have 10"), std::string::npos) << warnings[0];
}

TEST_F(ExecutableCacheTest, AFolderIsListedCheckedAndCleared) {
  EXPECT_THROW(cached_programs(folder), Error);
  for (float constant : {1.0f, 2.0f, 3.0f}) {
    const Session session(*small_program(5.0f, constant), options());
  }
  write(folder / "notes.txt", "kept");
  const std::string digits(32, 'a');
  write(folder / (digits + ".1.2.pando.tmp"), "a writer's");
  std::vector<CachedProgram> programs = cached_programs(folder);
  ASSERT_EQ(programs.size(), 3U);
  EXPECT_TRUE(std::is_sorted(programs.begin(), programs.end(),
                             [](const auto& a, const auto& b) { return a.path < b.path; }));
  for (const CachedProgram& program : programs) {
    EXPECT_EQ(program.bytes, static_cast<std::int64_t>(contents(program.path).size()));
    EXPECT_EQ(cached_program_fault(program.path), "");
  }
  const std::string bytes = contents(programs[0].path);
  std::string damaged = bytes;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  write(programs[0].path, damaged);
  EXPECT_NE(cached_program_fault(programs[0].path), "");
  write(programs[0].path, bytes.substr(0, bytes.size() - 1));
  EXPECT_NE(cached_program_fault(programs[0].path), "");
  write(programs[0].path, contents(programs[1].path));
  EXPECT_EQ(cached_program_fault(programs[0].path),
            "it holds the program " + programs[1].path.stem().string());
  EXPECT_EQ(cached_program_fault(folder / "none.pando"), "there is no such file");
  EXPECT_EQ(clear_cached_programs(folder), 3U);
  EXPECT_TRUE(cached_programs(folder).empty());
  EXPECT_EQ(files().size(), 2U);  // not ours, and of a writer that may live
  fs::last_write_time(folder / (digits + ".1.2.pando.tmp"),
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(clear_cached_programs(folder), 0U);
  EXPECT_EQ(files(), std::vector<fs::path>{folder / "notes.txt"});
}

TEST(BuildId, IsAHashInHexadecimal) {
  EXPECT_EQ(build_id().size(), 40u);
  EXPECT_EQ(build_id().find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace pando::testing
