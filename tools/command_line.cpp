#include "tools/command_line.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/compile/step_passes.hpp"
#include "pando/ir/dot.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/ops/library_ops.hpp"
#include "pando/ops/ops.hpp"
#include "pando/session/device_table.hpp"
#include "pando/session/executable_cache.hpp"
#include "pando/session/session.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "pando/transforms/pass_registry.hpp"

namespace {

using pando::str_cat;
using Arguments = std::vector<std::string>;

constexpr const char* kUsage =
    "usage: pando COMMAND ...\n"
    "\n"
    "  pando opt --pass=NAME[,NAME...] FILE   run passes and print the program\n"
    "  pando verify FILE                      check the program against the rules of its form\n"
    "  pando dot FILE                         print the program for Graphviz\n"
    "  pando explain FILE                     compile; print instructions, kernels, memory, "
    "stages\n"
    "  pando explain --stage=NAME FILE        compile; print the program as it was after a stage\n"
    "  pando ops                              list the op kinds\n"
    "  pando passes                           list the passes\n"
    "  pando cache list|size|verify|clear [FOLDER]\n"
    "                                         compiled programs on disk (default: the folder of\n"
    "                                         POPXL_CACHE_DIR, POPART_CACHE_DIR or "
    "session_cache)\n"
    "\n"
    "Every command takes --library PATH before FILE, any number of times: a shared library of "
    "users'\n"
    "own ops, which is loaded first.\n"
    "\n"
    "FILE: a program in the text form of the IR (opt and verify: or of steps, what the compiler\n"
    "makes of it after the stage `lower`); - reads standard input.\n";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string read_file(const std::string& name) {
  if (name == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code missing;
  if (std::filesystem::is_directory(name, missing)) {
    throw pando::Error(
        str_cat("cannot read '", name, "': it is a folder; give a file, or - for standard input"));
  }
  std::ifstream file(name, std::ios::binary);
  if (!file) throw pando::Error(str_cat("cannot read the file '", name, "'"));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

const std::string& only_file(const Arguments& arguments) {
  if (arguments.size() != 1 || (arguments[0].size() > 1 && arguments[0][0] == '-')) {
    throw UsageError(str_cat("wanted one FILE, given ", arguments.size(), " arguments",
                             arguments.empty() ? "" : ", first '" + arguments[0] + "'"));
  }
  return arguments[0];
}

/// What `parse` makes of the text of a file, whose errors begin with its name.
template <class Parse>
auto parse_file(const std::string& name, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const pando::Error& error) {
    throw pando::Error(error.code(), str_cat(name, ": ", error.what()));
  }
}

/// `zero_elided`: for commands whose result does not depend on host values.
std::unique_ptr<pando::Ir> load(const std::string& name, const std::string& text,
                                bool zero_elided) {
  return parse_file(name, text, [&](const std::string& given) {
    return pando::parse_ir(given, {.zero_elided = zero_elided});
  });
}
std::unique_ptr<pando::Ir> load(const std::string& name, bool zero_elided) {
  return load(name, read_file(name), zero_elided);
}

/// The value of a first argument `--name=value`, which is removed; empty when there is none.
std::string take_option(Arguments& arguments, const std::string& name) {
  const std::string start = "--" + name + "=";
  if (arguments.empty() || !arguments[0].starts_with(start)) return {};
  std::string value = arguments[0].substr(start.size());
  arguments.erase(arguments.begin());
  return value;
}

/// Loads what `--library PATH` and `--library=PATH` name, and removes them.
void load_libraries(Arguments& arguments) {
  const std::string option = "--library";
  Arguments rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with(option + "=")) {
      pando::load_library(argument.substr(option.size() + 1));
    } else if (argument == option) {
      if (++i == arguments.size()) throw UsageError("wanted the path of a library after --library");
      pando::load_library(arguments[i]);
    } else {
      rest.push_back(argument);
    }
  }
  arguments = std::move(rest);
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> result;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) result.push_back(name);
  return result;
}

void optimise_steps(const std::string& file, const std::string& text,
                    const std::vector<std::string>& names) {
  pando::StepProgram steps =
      parse_file(file, text, [](const std::string& given) { return pando::parse_steps(given); });
  pando::DeviceSettings settings;
  const std::shared_ptr<pando::Target> target =
      pando::device_kind(pando::SessionOptions().device, settings).make_target(settings);
  for (const std::string& name : names) {
    pando::find_step_pass(name).run(steps, *target);
    pando::verify(steps, name);
  }
  std::cout << pando::print_steps(steps);
}

void optimise(Arguments arguments) {
  const std::vector<std::string> names = split(take_option(arguments, "pass"));
  if (names.empty()) throw UsageError("wanted --pass=NAME[,NAME...] and one FILE");
  const std::string& file = only_file(arguments);
  const std::string text = read_file(file);
  if (pando::is_steps_text(text)) return optimise_steps(file, text, names);
  std::vector<const pando::Pass*> passes;
  passes.reserve(names.size());
  for (const std::string& name : names) passes.push_back(&pando::find_pass(name));
  const auto ir = load(file, text, false);
  for (const pando::Pass* pass : passes) {
    pass->run(*ir);
    pando::verify(*ir, pass->name);
  }
  std::cout << pando::print_ir(*ir);
}

void verify(const Arguments& arguments) {
  const std::string& file = only_file(arguments);
  const std::string text = read_file(file);
  if (pando::is_steps_text(text)) {
    const pando::StepProgram steps =
        parse_file(file, text, [](const std::string& given) { return pando::parse_steps(given); });
    std::size_t instructions = 0;
    for (const auto& function : steps.functions) instructions += function.instructions.size();
    std::cout << "valid: " << steps.functions.size() << " functions, " << instructions
              << " instructions\n";
    return;
  }
  const auto ir = load(file, text, true);
  pando::verify(*ir);
  std::size_t ops = 0;
  for (const pando::Graph* graph : ir->graphs()) ops += graph->ops().size();
  std::cout << "valid: " << ir->graphs().size() << " graphs, " << ops << " ops\n";
}

void draw(const Arguments& arguments) {
  std::cout << pando::dot_text(*load(only_file(arguments), true));
}

/// The program as it was after the last time that the compiler did `stage`.
void explain_stage(const pando::Ir& ir, const std::string& stage) {
  std::string text, known;
  const auto keep = [&](const std::string& name, auto print) {
    known += (known.empty() ? "" : ", ") + name;
    if (name == stage) text = print();
  };
  pando::SessionOptions options;
  options.after_stage = [&](const std::string& name, const pando::Ir& now) {
    keep(name, [&] { return pando::print_ir(now); });
  };
  options.after_steps = [&](const std::string& name, const pando::StepProgram& now) {
    keep(name, [&] { return pando::print_steps(now); });
  };
  const pando::Session session(ir, options);
  if (text.empty()) {
    throw pando::Error(str_cat("there is no stage '", stage, "'; the stages are ", known));
  }
  std::cout << text;
}

void explain(Arguments arguments) {
  const std::string stage = take_option(arguments, "stage");
  const auto ir = load(only_file(arguments), true);
  if (!stage.empty()) return explain_stage(*ir, stage);
  const pando::Session session(*ir);
  std::cout << session.disassembly();
  std::cout << "\nkernels\n" << session.explain();
  const pando::MemoryReport& memory = session.program().memory;
  std::cout << "\nmemory\n  persistent " << memory.persistent_bytes << " bytes\n  peak frame "
            << memory.peak_frame_bytes << " bytes (lower bound " << memory.frame_lower_bound_bytes
            << ")\n";
  for (const pando::LiveTensor& tensor : memory.alive_at_peak.all()) {
    std::cout << "  at the peak: " << tensor.bytes << " bytes  " << tensor.name;
    if (!tensor.location.empty()) std::cout << "  (" << tensor.location << ")";
    std::cout << "\n";
  }
  std::cout << "\nstages\n";
  for (const auto& [name, seconds] : session.compile_report().stages) {
    std::cout << "  " << name << "  " << seconds * 1e3 << " ms\n";
  }
}

void require_none(const Arguments& arguments) {
  if (!arguments.empty()) throw UsageError("this command takes no arguments");
}

void list_ops(const Arguments& arguments) {
  require_none(arguments);
  for (const pando::OpDef* def : pando::Registry::instance().all()) {
    std::cout << def->name << "\n  " << def->doc << "\n";
    for (const pando::AttributeSpec& spec : def->attributes) {
      static constexpr const char* kTypes[] = {"flag",  "integer",  "number", "text",
                                               "dtype", "integers", "numbers"};
      std::cout << "  attribute " << spec.name << ": "
                << kTypes[static_cast<std::size_t>(spec.type)]
                << (spec.required ? "\n" : " (optional)\n");
    }
  }
}

void list_passes(const Arguments& arguments) {
  require_none(arguments);
  for (const pando::Pass& pass : pando::all_passes()) {
    std::cout << pass.name << "\n  " << pass.doc << "\n";
  }
  for (const pando::StepPass& pass : pando::all_step_passes()) {
    std::cout << pass.name << " (steps)\n  " << pass.doc << "\n";
  }
}

/// What the files of C++ programs and of popxl end with.
constexpr std::array kCacheSuffixes = {pando::kCacheSuffix, ".popef"};

std::filesystem::path cache_folder(const Arguments& arguments) {
  if (arguments.size() > 1) return arguments[1];
  for (const char* name : {"POPXL_CACHE_DIR", "POPART_CACHE_DIR"}) {
    const char* folder = std::getenv(name);
    if (folder != nullptr && *folder != '\0') return folder;
  }
  return "session_cache";
}

std::string time_text(std::filesystem::file_time_type when) {
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(
      when - std::filesystem::file_time_type::clock::now());
  const std::time_t seconds = std::time(nullptr) + since.count();
  std::ostringstream text;
  text << std::put_time(std::localtime(&seconds), "%Y-%m-%d %H:%M:%S");
  return std::move(text).str();
}

void list_cache(const std::vector<pando::CachedProgram>& programs) {
  for (const pando::CachedProgram& program : programs) {
    std::cout << program.path.stem().string() << "  " << std::setw(12) << program.bytes
              << " bytes  used " << time_text(program.used) << "\n";
  }
}

void verify_cache(const std::vector<pando::CachedProgram>& programs) {
  std::size_t faults = 0;
  for (const pando::CachedProgram& program : programs) {
    const std::string fault = pando::cached_program_fault(program.path);
    if (fault.empty()) continue;
    ++faults;
    std::cout << program.path.string() << ": " << fault << "\n";
  }
  std::cout << programs.size() - faults << " of " << programs.size() << " programs are sound\n";
  if (faults > 0) throw pando::Error(str_cat(faults, " of the programs would be compiled again"));
}

void look_at_cache(const Arguments& arguments) {
  const bool known = !arguments.empty() && arguments.size() <= 2 &&
                     (arguments[0] == "list" || arguments[0] == "size" ||
                      arguments[0] == "verify" || arguments[0] == "clear");
  if (!known) throw UsageError("wanted list, size, verify or clear, and at most one FOLDER");
  const std::filesystem::path folder = cache_folder(arguments);
  if (arguments[0] == "clear") {
    std::size_t removed = 0;
    for (const char* suffix : kCacheSuffixes) {
      removed += pando::clear_cached_programs(folder, suffix);
    }
    std::cout << removed << " programs removed from " << folder.string() << "\n";
    return;
  }
  std::vector<pando::CachedProgram> programs;
  for (const char* suffix : kCacheSuffixes) {
    const std::vector<pando::CachedProgram> more = pando::cached_programs(folder, suffix);
    programs.insert(programs.end(), more.begin(), more.end());
  }
  if (arguments[0] == "list") return list_cache(programs);
  if (arguments[0] == "verify") return verify_cache(programs);
  std::int64_t bytes = 0;
  for (const pando::CachedProgram& program : programs) bytes += program.bytes;
  std::cout << bytes << " bytes in " << programs.size() << " programs\n";
}

int run(const Arguments& arguments) {
  const std::vector<std::pair<std::string, std::function<void(const Arguments&)>>> commands = {
      {"opt", optimise}, {"verify", verify},      {"dot", draw},           {"explain", explain},
      {"ops", list_ops}, {"passes", list_passes}, {"cache", look_at_cache}};
  if (arguments.empty()) throw UsageError("wanted a command");
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    std::cout << kUsage;
    return 0;
  }
  for (const auto& [name, command] : commands) {
    if (name != arguments[0]) continue;
    pando::op_registry();
    Arguments own(arguments.begin() + 1, arguments.end());
    load_libraries(own);
    command(own);
    return 0;
  }
  throw UsageError(str_cat("there is no command '", arguments[0], "'"));
}

}  // namespace

namespace pando {

int run_command_line(const std::vector<std::string>& arguments) {
  int status = 1;
  try {
    status = run(arguments);
  } catch (const UsageError& error) {
    std::cerr << "pando: " << error.what() << "\n\n" << kUsage;
    status = 2;
  } catch (const std::exception& error) {
    std::cerr << "pando: " << error.what() << "\n";
  }
  std::cout.flush();
  return status;
}

}  // namespace pando
