// Sessions.

#include <utility>

#include "array_bytes.hpp"
#include "bindings.hpp"
#include "interpreter_lock.hpp"
#include "pando/base/checksum.hpp"
#include "pando/base/error.hpp"
#include "pando/session/runner_state.hpp"
#include "pando/session/session.hpp"

namespace pando::python {
namespace {

using LogCallback = std::function<void(bool is_warning, const std::string& message)>;

template <class Choice>
Choice choice_named(const char* setting, const std::string& name,
                    std::initializer_list<std::pair<const char*, Choice>> choices) {
  std::string wanted;
  for (const auto& [known, choice] : choices) {
    if (name == known) return choice;
    wanted += str_cat(wanted.empty() ? "'" : ", '", known, "'");
  }
  throw ValueError(str_cat("wanted ", setting, " to be one of ", wanted, "; given '", name, "'"));
}

MemoryTier tier_named(const std::string& name) {
  return choice_named<MemoryTier>("the memory tier", name,
                                  {{"ram", MemoryTier::Ram}, {"file", MemoryTier::File}});
}

IoMethod io_method_named(const std::string& name) {
  return choice_named<IoMethod>("remote_io", name,
                                {{"auto", IoMethod::Automatic},
                                 {"io_uring", IoMethod::Uring},
                                 {"threads", IoMethod::Threads}});
}

RemoteSettings remote_settings(const nb::dict& given) {
  RemoteSettings settings;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "tier") {
      settings.tier = tier_named(nb::cast<std::string>(value));
    } else if (name == "tiers") {
      for (const auto& [buffer, tier] : nb::cast<std::map<std::int64_t, std::string>>(value)) {
        settings.tier_of_buffer[buffer] = tier_named(tier);
      }
    } else if (name == "folder") {
      settings.folder = nb::cast<std::string>(value);
    } else if (name == "staging_bytes") {
      settings.staging_bytes = nb::cast<std::int64_t>(value);
    } else if (name == "prefetch_bytes") {
      settings.prefetch_bytes = nb::cast<std::int64_t>(value);
    } else if (name == "io_threads") {
      settings.io_threads = nb::cast<int>(value);
    } else if (name == "direct") {
      settings.direct = nb::cast<bool>(value);
    } else if (name == "io") {
      settings.method = io_method_named(nb::cast<std::string>(value));
    } else {
      throw ValueError(str_cat("there is no remote setting called '", name, "'"));
    }
  }
  return settings;
}

std::unique_ptr<Session> make_session(const Ir& ir, std::int64_t memory_limit_bytes,
                                      std::int64_t device_memory_limit_bytes, int num_threads,
                                      bool check_inplace_ambiguity, bool profile,
                                      bool check_log2_scales, bool stable_softmax,
                                      double collective_timeout_seconds, std::string cache_folder,
                                      std::string cache_suffix, std::int64_t cache_limit_bytes,
                                      const std::optional<LogCallback>& log, const nb::dict& remote,
                                      const std::string& machine_code, bool flush_denormals,
                                      bool check_finite) {
  SessionOptions options;
  options.memory_limit_bytes = memory_limit_bytes;
  options.device_memory_limit_bytes = device_memory_limit_bytes;
  options.num_threads = num_threads;
  options.check_inplace_ambiguity = check_inplace_ambiguity;
  options.profile = profile;
  options.check_log2_scales = check_log2_scales;
  options.stable_softmax = stable_softmax;
  options.collective_timeout_seconds = collective_timeout_seconds;
  options.remote = remote_settings(remote);
  options.device_options["machine_code"] = machine_code;
  options.flush_denormals = flush_denormals;
  options.check_finite = check_finite;
  options.should_stop = should_stop;
  options.cache_folder = std::move(cache_folder);
  options.cache_suffix = std::move(cache_suffix);
  options.cache_limit_bytes = cache_limit_bytes;
  if (log) {
    options.log = [&log](LogLevel level, const std::string& message) {
      (*log)(level == LogLevel::Warning, message);
    };
  }
  return std::make_unique<Session>(ir, options);
}

std::vector<RepeatedStream> run(Session& session, const nb::list& inputs, const nb::list& outputs) {
  const auto replicas = static_cast<std::int64_t>(session.local_replicas().size());
  const StreamArrays in(inputs, session.input_streams(), replicas, false);
  const StreamArrays out(outputs, session.output_streams(), replicas, true);
  const InterpreterReleased released;
  return session.run(in.buffers(), out.buffers());
}

/// Every method has it that waits for another call of the session.
using Released = nb::call_guard<InterpreterReleased>;

void bind_snapshot(nb::module_& m) {
  nb::class_<StateSnapshot::Row>(m, "SnapshotRow")
      .def_ro("replica", &StateSnapshot::Row::replica)
      .def_ro("buffer", &StateSnapshot::Row::buffer)
      .def_ro("slot", &StateSnapshot::Row::slot);
  nb::class_<StateSnapshot>(m, "StateSnapshot",
                            "What a session held at one moment; may be read while it runs.")
      .def(
          "read_persistent",
          [](const StateSnapshot& s, std::int64_t replica, std::int64_t index, nb::handle to) {
            const ArrayBytes bytes(to, true);
            const std::vector<std::byte>& value = s.persistent(replica, index);
            if (value.size() != bytes.size()) {
              throw ValueError(
                  str_cat("the tensor has ", value.size(), " bytes; given ", bytes.size()));
            }
            std::copy(value.begin(), value.end(), bytes.data());
          },
          nb::arg("replica"), nb::arg("index"), nb::arg("to"),
          "Fills an array with the value of a state tensor of one replica.")
      .def(
          "next_row",
          [](const StateSnapshot& s, nb::handle to) {
            const ArrayBytes bytes(to, true);
            const InterpreterReleased released;
            return s.next_row(bytes.data(), bytes.size());
          },
          nb::arg("to"),
          "Fills the beginning of an array, in which the largest row must fit, with one more row "
          "of a remote buffer, in any order; None when none is left.")
      .def("cancel", &StateSnapshot::cancel, Released());
}

void bind_names(nb::class_<Session>& session) {
  session
      .def_prop_ro(
          "variable_ids",
          [](const Session& s) {
            std::vector<std::string> ids;
            for (const VariableLayout& variable : s.executable().variables()) {
              ids.emplace_back(variable.id);
            }
            return ids;
          },
          "The variables that the program uses.")
      .def_prop_ro(
          "host_functions", [](Session& s) { return s.host_functions().names(); },
          "The names of those it calls.")
      .def(
          "set_host_function",
          [](Session& s, std::shared_ptr<HostFunctionQueue> queue) {
            s.host_functions().set(std::move(queue));
          },
          nb::arg("queue"));
}

void bind_state(nb::class_<Session>& session) {
  session
      .def(
          "snapshot",
          [](Session& s, std::int64_t room_bytes, bool rows_only) {
            return s.state().snapshot(room_bytes, rows_only);
          },
          nb::arg("room_bytes"), nb::arg("rows_only") = false, Released(),
          "The state as it is now, between runs, or rows of remote buffers only; a snapshot before "
          "it is cancelled.")
      .def(
          "read_persistent",
          [](Session& s, std::int64_t replica, std::int64_t index, nb::handle to) {
            const ArrayBytes bytes(to, true);
            const InterpreterReleased released;
            s.state().read_persistent(replica, index, bytes.data(), bytes.size());
          },
          nb::arg("replica"), nb::arg("index"), nb::arg("to"))
      .def(
          "write_persistent",
          [](Session& s, std::int64_t replica, std::int64_t index, nb::handle from) {
            const ArrayBytes bytes(from, false);
            const InterpreterReleased released;
            s.state().write_persistent(replica, index, bytes.data(), bytes.size());
          },
          nb::arg("replica"), nb::arg("index"), nb::arg("value"))
      .def(
          "write_remote",
          [](Session& s, std::int64_t replica, std::int64_t buffer, std::int64_t slot,
             nb::handle from) {
            const ArrayBytes bytes(from, false);
            const InterpreterReleased released;
            s.state().write_remote(replica, buffer, slot, bytes.data(), bytes.size());
          },
          nb::arg("replica"), nb::arg("buffer"), nb::arg("slot"), nb::arg("value"))
      .def(
          "read_remote",
          [](Session& s, std::int64_t replica, std::int64_t buffer, std::int64_t slot,
             nb::handle to) {
            const ArrayBytes bytes(to, true);
            const InterpreterReleased released;
            s.state().read_remote(replica, buffer, slot, bytes.data(), bytes.size());
          },
          nb::arg("replica"), nb::arg("buffer"), nb::arg("slot"), nb::arg("to"))
      .def_prop_ro("persistent", [](const Session& s) { return s.program().persistent; })
      .def_prop_ro("state_tensors", &Session::state_tensors,
                   "Indices of the persistent tensors that are no constants, nor made of others.")
      .def_prop_ro("remote_buffers", [](const Session& s) { return s.program().remote_buffers; })
      .def_prop_ro("fingerprint", &Session::fingerprint, Released(),
                   "Checksum of the compiled program, without where its ops were made.");
}

void require_transfer(const TransferQueue& queue, const ArrayBytes& bytes) {
  const auto wanted = static_cast<std::size_t>(queue.transfer_bytes());
  if (bytes.size() == wanted) return;
  throw ValueError(str_cat("a transfer has ", wanted, " bytes; given ", bytes.size()));
}

void bind_transfer_queue(nb::module_& m) {
  nb::class_<TransferQueue>(
      m, "TransferQueue",
      "Transfers of a stream between a program that runs and a thread of the host.")
      .def(nb::init<std::string, bool, std::int64_t, std::int64_t, std::int64_t>(), nb::arg("name"),
           nb::arg("host_to_device"), nb::arg("part_bytes"), nb::arg("parts"), nb::arg("room"))
      .def(
          "put",
          [](TransferQueue& queue, nb::handle from) {
            const ArrayBytes bytes(from, false);
            require_transfer(queue, bytes);
            const InterpreterReleased released;
            return queue.put(bytes.data(), stop_check(should_stop));
          },
          nb::arg("transfer"), "Gives one transfer; False: the queue is closed or has failed.")
      .def(
          "take",
          [](TransferQueue& queue, nb::handle to) {
            const ArrayBytes bytes(to, true);
            require_transfer(queue, bytes);
            const InterpreterReleased released;
            return queue.take(bytes.data(), stop_check(should_stop));
          },
          nb::arg("transfer"),
          "Fills an array with the oldest transfer; False: it is closed or has failed, and none is "
          "left.")
      .def("close", &TransferQueue::close, Released())
      .def(
          "fail",
          [](TransferQueue& queue, const std::string& message) {
            const InterpreterReleased released;
            queue.fail(std::make_exception_ptr(RuntimeFault(message)));
          },
          nb::arg("message"))
      .def_prop_ro("transfers", &TransferQueue::transfers, Released(),
                   "Those that all replicas have loaded, or stored, in all runs so far.");
}

/// Dtype and shape.
using OperandTypes = std::vector<std::pair<DType, Shape>>;

OperandTypes types_of(const std::vector<OperandDesc>& operands) {
  OperandTypes types;
  for (const OperandDesc& operand : operands) types.emplace_back(operand.dtype, operand.shape);
  return types;
}

void require_operand(const std::vector<std::byte>& operand, const ArrayBytes& bytes) {
  if (bytes.size() == operand.size()) return;
  throw ValueError(str_cat("the operand has ", operand.size(), " bytes; given ", bytes.size()));
}

void bind_host_functions(nb::module_& m) {
  nb::class_<HostCall>(m, "HostCall", "A call of a function of the host, by a program that waits.")
      .def_prop_ro("inputs", [](const HostCall& call) { return types_of(call.desc().inputs); })
      .def_prop_ro("outputs", [](const HostCall& call) { return types_of(call.desc().outputs); })
      .def(
          "read_input",
          [](HostCall& call, std::size_t index, nb::handle to) {
            const ArrayBytes bytes(to, true);
            require_operand(call.input(index), bytes);
            std::copy(call.input(index).begin(), call.input(index).end(), bytes.data());
          },
          nb::arg("index"), nb::arg("to"), "Fills an array with an input.")
      .def(
          "write_output",
          [](HostCall& call, std::size_t index, nb::handle from) {
            const ArrayBytes bytes(from, false);
            require_operand(call.output(index), bytes);
            std::copy(bytes.data(), bytes.data() + bytes.size(), call.output(index).begin());
          },
          nb::arg("index"), nb::arg("value"));
  nb::class_<HostFunctionQueue>(m, "HostFunctionQueue",
                                "The calls of one function of the host, which a thread takes.")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def_prop_ro("name", &HostFunctionQueue::name)
      .def(
          "take",
          [](HostFunctionQueue& queue) {
            const InterpreterReleased released;
            return queue.take(stop_check(should_stop));
          },
          "The oldest call; None: the queue is closed.")
      .def(
          "finish",
          [](HostFunctionQueue& queue, HostCall& call, const std::optional<std::string>& error) {
            const InterpreterReleased released;
            queue.finish(call, error ? std::make_exception_ptr(RuntimeFault(*error)) : nullptr);
          },
          nb::arg("call"), nb::arg("error") = nb::none(),
          "Ends a call: its outputs are written, or the error says why not.")
      .def("close", &HostFunctionQueue::close, Released());
}

void bind_checksum(nb::module_& m) {
  nb::class_<Checksum>(m, "Checksum", "XXH3 with 64 bits over data that comes in pieces.")
      .def(nb::init<>())
      .def(
          "update",
          [](Checksum& sum, nb::handle data) {
            const ArrayBytes bytes(data, false);
            const InterpreterReleased released;
            sum.update(bytes.data(), bytes.size());
          },
          nb::arg("data"))
      .def_prop_ro("value", &Checksum::value);
}

void bind_profile(nb::module_& m) {
  nb::class_<BufferTraffic>(m, "BufferTraffic")
      .def_ro("bytes_loaded", &BufferTraffic::bytes_loaded)
      .def_ro("bytes_stored", &BufferTraffic::bytes_stored);
  nb::class_<PhaseProfile>(m, "PhaseProfile")
      .def_ro("name", &PhaseProfile::name)
      .def_ro("device", &PhaseProfile::device)
      .def_ro("seconds", &PhaseProfile::seconds)
      .def_ro("waiting_seconds", &PhaseProfile::waiting_seconds)
      .def_ro("exchange_seconds", &PhaseProfile::exchange_seconds)
      .def_ro("io_seconds", &PhaseProfile::io_seconds)
      .def_prop_ro("compute_seconds", &PhaseProfile::compute_seconds)
      .def_ro("host_bytes_loaded", &PhaseProfile::host_bytes_loaded)
      .def_ro("host_bytes_stored", &PhaseProfile::host_bytes_stored)
      .def_ro("buffers", &PhaseProfile::buffers);
  nb::class_<TimelineEvent>(m, "TimelineEvent")
      .def_ro("start", &TimelineEvent::start)
      .def_ro("end", &TimelineEvent::end)
      .def_ro("depth", &TimelineEvent::depth)
      .def_ro("name", &TimelineEvent::name)
      .def_ro("phase", &TimelineEvent::phase);
  nb::class_<TimelineLane>(m, "TimelineLane")
      .def_ro("name", &TimelineLane::name)
      .def_ro("events", &TimelineLane::events);
}

void bind_reports(nb::module_& m) {
  nb::class_<PersistentTensor>(m, "PersistentTensor")
      .def_ro("id", &PersistentTensor::id)
      .def_ro("dtype", &PersistentTensor::dtype)
      .def_prop_ro("shape", [](const PersistentTensor& tensor) { return tensor.shape.get(); })
      .def_ro("is_variable", &PersistentTensor::is_variable);
  nb::class_<RemoteBufferDesc>(m, "RemoteBufferDesc")
      .def_ro("id", &RemoteBufferDesc::id)
      .def_ro("dtype", &RemoteBufferDesc::dtype)
      .def_ro("shape", &RemoteBufferDesc::shape)
      .def_ro("entries", &RemoteBufferDesc::entries);
  nb::class_<IoReport>(m, "IoReport")
      .def_ro("bytes_loaded", &IoReport::bytes_loaded)
      .def_ro("bytes_stored", &IoReport::bytes_stored)
      .def_ro("bytes_from_stores", &IoReport::bytes_from_stores)
      .def_ro("io_seconds", &IoReport::io_seconds)
      .def_ro("busy_seconds", &IoReport::busy_seconds)
      .def_ro("waiting_seconds", &IoReport::waiting_seconds);
  nb::class_<StreamDesc>(m, "StreamDesc")
      .def_ro("id", &StreamDesc::id)
      .def_ro("dtype", &StreamDesc::dtype)
      .def_ro("shape", &StreamDesc::shape)
      .def_ro("host_to_device", &StreamDesc::host_to_device);
  nb::class_<RepeatedStream>(m, "RepeatedStream")
      .def_ro("stream", &RepeatedStream::stream)
      .def_ro("host_to_device", &RepeatedStream::host_to_device)
      .def_ro("transfers", &RepeatedStream::transfers)
      .def_ro("count", &RepeatedStream::count);
  nb::class_<LiveTensor>(m, "LiveTensor")
      .def_ro("name", &LiveTensor::name)
      .def_ro("bytes", &LiveTensor::bytes)
      .def_ro("location", &LiveTensor::location)
      .def_ro("depth", &LiveTensor::depth);
  nb::class_<DeviceMemoryUse>(m, "DeviceMemoryUse")
      .def_ro("device", &DeviceMemoryUse::device)
      .def_ro("persistent_bytes", &DeviceMemoryUse::persistent_bytes)
      .def_ro("peak_frame_bytes", &DeviceMemoryUse::peak_frame_bytes)
      .def_prop_ro("alive_at_peak",
                   [](const DeviceMemoryUse& memory) { return memory.alive_at_peak.all(); });
  nb::class_<MemoryReport>(m, "MemoryReport")
      .def_ro("devices", &MemoryReport::devices)
      .def_ro("persistent_bytes", &MemoryReport::persistent_bytes)
      .def_ro("peak_frame_bytes", &MemoryReport::peak_frame_bytes)
      .def_ro("frame_lower_bound_bytes", &MemoryReport::frame_lower_bound_bytes)
      .def_prop_ro("alive_at_peak",
                   [](const MemoryReport& memory) { return memory.alive_at_peak.all(); })
      .def_ro("timeline", &MemoryReport::timeline);
  nb::class_<InstructionTime>(m, "InstructionTime")
      .def_ro("function", &InstructionTime::function)
      .def_ro("op", &InstructionTime::op)
      .def_ro("location", &InstructionTime::location)
      .def_ro("kernel", &InstructionTime::kernel)
      .def_ro("calls", &InstructionTime::calls)
      .def_ro("seconds", &InstructionTime::seconds);
  nb::class_<CompileReport>(m, "CompileReport")
      .def_ro("seconds", &CompileReport::compile_seconds)
      .def_ro("stages", &CompileReport::stages)
      .def_ro("cache_file", &CompileReport::cache_file);
}

}  // namespace

void bind_session(nb::module_& m) {
  bind_reports(m);
  bind_profile(m);
  bind_checksum(m);
  bind_snapshot(m);
  bind_transfer_queue(m);
  bind_host_functions(m);
  nb::class_<Session> session(m, "Session");
  bind_names(session);
  bind_state(session);
  session
      .def(nb::new_(&make_session), nb::arg("ir"), nb::arg("memory_limit_bytes") = 0,
           nb::arg("device_memory_limit_bytes") = 0, nb::arg("num_threads") = 0,
           nb::arg("check_inplace_ambiguity") = true, nb::arg("profile") = false,
           nb::arg("check_log2_scales") = true, nb::arg("stable_softmax") = true,
           nb::arg("collective_timeout_seconds") = 600.0, nb::arg("cache_folder") = "",
           nb::arg("cache_suffix") = "", nb::arg("cache_limit_bytes") = std::int64_t{1} << 30,
           nb::arg("log") = nb::none(), nb::arg("remote") = nb::dict(),
           nb::arg("machine_code") = "auto", nb::arg("flush_denormals") = true,
           nb::arg("check_finite") = false)
      .def_prop_ro("input_streams", &Session::input_streams)
      .def_prop_ro("output_streams", &Session::output_streams)
      .def_prop_ro("num_replicas", &Session::num_replicas)
      .def("attach", &Session::attach, Released())
      .def("detach", &Session::detach, Released())
      .def_prop_ro("is_attached", &Session::is_attached)
      .def("run", &run, nb::arg("inputs"), nb::arg("outputs"),
           "Runs the program once. One C-ordered NumPy array per stream, in the order of "
           "input_streams and output_streams. Returns the streams whose array it began again.")
      .def("weights_from_host", &Session::weights_from_host, nb::arg("ids") = nb::none(),
           Released(), "Of the variables with these ids; None: of all.")
      .def(
          "weights_to_host",
          [](Session& s, const std::optional<std::vector<std::string>>& ids) {
            s.weights_to_host(ids);
          },
          nb::arg("ids") = nb::none(), Released(), "Of the variables with these ids; None: of all.")
      .def(
          "weights_to_host_and_detach",
          [](Session& s) { s.weights_to_host(std::nullopt, Session::Afterwards::Detach); },
          Released())
      .def_prop_ro("memory", [](const Session& s) { return s.program().memory; })
      .def_prop_ro("compile_report", &Session::compile_report)
      .def_prop_ro("actual_peak_bytes", &Session::actual_peak_bytes, Released())
      .def_prop_ro("io_report", &Session::io_report, Released())
      .def_prop_ro("io_method", &Session::io_method)
      .def("trace", &Session::trace, Released())
      .def("phases", &Session::phases, Released())
      .def("timeline", &Session::timeline, Released())
      .def("disassembly", &Session::disassembly, Released())
      .def("explain", &Session::explain, Released());
}

}  // namespace pando::python
