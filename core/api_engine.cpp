// Engine calls of mote.h: the arena, the threads and the backends.
#include <new>

#include "core/base/slice.h"
#include "core/handles.h"
#include "core/sampler/sampler.h"
#include "mote_build.h"
#include "platform/cpu_features.h"
#include "platform/instruction_sets.h"
#include "platform/memory.h"

namespace mote {

constexpr bool same(Code code, mote_status status) { return static_cast<int>(code) == static_cast<int>(status); }
static_assert(same(Code::ok, MOTE_OK) && same(Code::invalid_argument, MOTE_INVALID_ARGUMENT) &&
              same(Code::io, MOTE_IO) && same(Code::bad_model, MOTE_BAD_MODEL) &&
              same(Code::unsupported, MOTE_UNSUPPORTED) && same(Code::out_of_memory, MOTE_OUT_OF_MEMORY) &&
              same(Code::buffer_too_small, MOTE_BUFFER_TOO_SMALL) && same(Code::context_full, MOTE_CONTEXT_FULL) &&
              same(Code::cancelled, MOTE_CANCELLED) && same(Code::wrong_state, MOTE_WRONG_STATE) &&
              same(Code::busy, MOTE_BUSY) && same(Code::not_finite, MOTE_NOT_FINITE) &&
              same(Code::backend_failed, MOTE_BACKEND_FAILED));
constexpr bool same(SamplerKind kind, mote_sampler_kind number) {
  return static_cast<int>(kind) == static_cast<int>(number);
}
static_assert(same(SamplerKind::temperature, MOTE_SAMPLER_TEMPERATURE) &&
              same(SamplerKind::top_k, MOTE_SAMPLER_TOP_K) && same(SamplerKind::top_p, MOTE_SAMPLER_TOP_P) &&
              same(SamplerKind::min_p, MOTE_SAMPLER_MIN_P) && same(SamplerKind::typical_p, MOTE_SAMPLER_TYPICAL_P) &&
              same(SamplerKind::epsilon, MOTE_SAMPLER_EPSILON) && same(SamplerKind::eta, MOTE_SAMPLER_ETA) &&
              same(SamplerKind::no_repeat_ngram, MOTE_SAMPLER_NO_REPEAT_NGRAM) &&
              same(SamplerKind::repetition_penalty, MOTE_SAMPLER_REPETITION_PENALTY) &&
              same(SamplerKind::frequency_presence, MOTE_SAMPLER_FREQUENCY_PRESENCE) &&
              same(SamplerKind::logit_bias, MOTE_SAMPLER_LOGIT_BIAS) && same(SamplerKind::greedy, MOTE_SAMPLER_GREEDY));

static_assert(sizeof(mote_error) == 256 && Status::kCapacity <= sizeof(mote_error{}.message));

mote_status report(const Status& status, mote_error* error) {
  if (!status.ok() && error != nullptr) {
    error->status = static_cast<int32_t>(status.code());
    __builtin_memcpy(error->message, status.c_str(), status.message().size() + 1);
  }
  return static_cast<mote_status>(status.code());
}

Result<Memory> obtain_memory(const mote_memory& given, uint64_t bytes, std::string_view what) {
  if (given.data == nullptr) {
    if (given.bytes != 0)
      return Status::error(Code::invalid_argument, "{}: memory of {} bytes at NULL", what, given.bytes);
    void* pages = allocate_pages(bytes);
    if (pages == nullptr)
      return Status::error(Code::out_of_memory, "{} needs {} bytes of memory, which the platform does not give", what,
                           bytes);
    return Memory{pages, bytes, true};
  }
  if (reinterpret_cast<uintptr_t>(given.data) % kArenaAlignment != 0)
    return Status::error(Code::invalid_argument, "{}: the memory handed over is not aligned to {} bytes", what,
                         kArenaAlignment);
  if (given.bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(given.data))
    return Status::error(Code::invalid_argument,
                         "{}: {} bytes of memory handed over end beyond what this machine addresses", what,
                         given.bytes);
  if (given.bytes < bytes)
    return Status::error(Code::out_of_memory, "{} needs {} bytes of memory, {} were handed over", what, bytes,
                         given.bytes);
  return Memory{given.data, given.bytes, false};
}

void release_memory(const Memory& memory) {
  if (memory.owned) free_pages(memory.data, memory.bytes);
}

namespace {

void run_on_host(void* self, uint32_t lanes, ParallelTask task, void* context) {
  const auto* engine = static_cast<const mote_engine*>(self);
  struct Region {
    ParallelTask task;
    void* context;
  };
  Region region{task, context};
  const auto run_lane = [](void* at, uint32_t lane) {
    const FloatMode float_mode;   // the thread is the host's
    const auto* own = static_cast<const Region*>(at);
    own->task(own->context, lane);
  };
  engine->parallel_for(engine->parallel_for_user, lanes, run_lane, &region);
}

// "vulkan, cpu": the names between the commas, without their blanks; "vulkan," has two, of which the last is empty.
class BackendNames {
 public:
  explicit BackendNames(std::string_view list) : rest_(list) {}
  bool next(std::string_view* name) {
    if (at_end_) return false;
    const size_t comma = rest_.find(',');
    *name = slice(rest_, 0, comma);
    while (!name->empty() && name->front() == ' ') name->remove_prefix(1);
    while (!name->empty() && name->back() == ' ') name->remove_suffix(1);
    at_end_ = comma == std::string_view::npos;
    if (!at_end_) rest_ = slice(rest_, comma + 1);
    return true;
  }

 private:
  std::string_view rest_;
  bool at_end_ = false;
};

class EngineOpening {
 public:
  // The machine is asked for its limits where they are needed and `known` does not have them.
  explicit EngineOpening(const mote_engine_options& options, const CpuLimits& known = {})
      : options_(options), limits_(known) {}

  Status check_options() {
    threads_ = options_.threads != 0 ? options_.threads : default_threads(limits());
    if (threads_ > kMaxThreads)
      return Status::error(Code::invalid_argument, "threads is {}; at most {} are allowed", threads_, kMaxThreads);
    if (options_.extra_backends == nullptr && options_.n_extra_backends != 0)
      return Status::error(Code::invalid_argument, "extra_backends is NULL with n_extra_backends {}",
                           options_.n_extra_backends);
    for (size_t i = 0; i < options_.n_extra_backends; ++i)
      if (options_.extra_backends[i] == nullptr)
        return Status::error(Code::invalid_argument, "extra_backends[{}] is NULL", i);
    MOTE_RETURN_IF_ERROR(check_extras());
    const std::string_view wanted = options_.instruction_set == nullptr ? "auto" : options_.instruction_set;
    if (!find_instruction_set(wanted, &instruction_sets_))
      return Status::error(Code::invalid_argument, "instruction_set is {}; known are {}", wanted, kInstructionSetNames);
    return {};
  }

  Status check_extras() const {
    for (size_t i = 0; i < options_.n_extra_backends; ++i)
      if (extra(i)->interface_version() != kInterfaceVersion)
        return Status::error(Code::unsupported,
                             "backend {} was compiled against interface {} of core/ops; this library has {}",
                             extra(i)->name(), extra(i)->interface_version(), kInterfaceVersion);
    for (size_t i = 0; i < options_.n_extra_backends; ++i)
      for (size_t j = 0; j < i; ++j)
        if (std::string_view(extra(i)->name()) == extra(j)->name())
          return Status::error(Code::invalid_argument, "extra_backends[{}] and extra_backends[{}] are both named {}", j,
                               i, extra(i)->name());
    return {};
  }

  // The same calls measure the engine and build it.
  Status layout(Arena& arena) {
    engine_ = arena.create<mote_engine>();
    const bool own_threads = options_.parallel_for == nullptr && threads_ > 1;
    const std::span<std::byte> pool_memory =
        own_threads ? arena.take<std::byte>(thread_pool_bytes(threads_)) : std::span<std::byte>();
    const size_t most = built_in_backends().size() + options_.n_extra_backends;
    const std::span<Backend*> backends = arena.take<Backend*>(most);
    BackendServices services;
    services.parallel.lanes = threads_;
    services.instruction_sets = instruction_sets_;
    if (engine_ != nullptr && !arena.failed()) {
      MOTE_RETURN_IF_ERROR(start_threads(own_threads, pool_memory.data()));
      engine_->backends = backends;
      services = engine_->services;
    }
    MOTE_RETURN_IF_ERROR(open_backends(services, arena));
    return arena.status("the engine");
  }

  mote_engine* engine() const { return engine_; }
  uint32_t threads() const { return threads_; }
  const CpuLimits& known_limits() const { return limits_; }
  uint64_t stack_bytes() const {
    return options_.parallel_for != nullptr || threads_ < 2 ? 0 : thread_pool_stack_bytes(pool_options());
  }

 private:
  const CpuLimits& limits() {
    if (limits_.affinity == 0) limits_ = probe_cpu_limits();
    return limits_;
  }
  ThreadPoolOptions pool_options() const {
    ThreadPoolOptions pool;
    pool.threads = threads_;
    return pool;
  }

  Status start_threads(bool own_threads, void* pool_memory) {
    engine_->parallel_for = options_.parallel_for;
    engine_->parallel_for_user = options_.parallel_for_user;
    engine_->log = {options_.log, options_.log_user};
    engine_->services.instruction_sets = instruction_sets_;
    Parallel& parallel = engine_->services.parallel;
    parallel.lanes = threads_;
    if (options_.parallel_for != nullptr) {
      parallel.self = engine_;
      parallel.run_region = run_on_host;
    } else if (own_threads) {
      ThreadPoolOptions pool = pool_options();
      pool.cores = cores();
      if (pool.cores != 0 && threads_ > pool.cores) tell_of_too_many(pool.cores);
      const PlatformError error = start_thread_pool(pool, pool_memory, &engine_->pool);
      if (!error.ok())
        return Status::error(Code::out_of_memory, "{} threads could not be started: {} (error {})", threads_ - 1,
                             error.what, error.code);
      parallel = thread_pool_parallel(engine_->pool);
    }
    return {};
  }

  // How many threads can run at once: the lesser of the affinity mask and the quota, 0 where neither is known.
  uint32_t cores() {
    const CpuLimits& known = limits();
    return known.quota != 0 && (known.affinity == 0 || known.quota < known.affinity) ? known.quota : known.affinity;
  }

  // The number is obeyed all the same.
  void tell_of_too_many(uint32_t cores) const {
    char line[128];
    const FormatArgument arguments[] = {FormatArgument(threads_), FormatArgument(cores)};
    format_sentence(line, static_cast<uint32_t>(sizeof line),
                    "{} threads were asked for; the affinity mask and the quota of this process let {} run at once",
                    arguments, 2);
    say(line);
  }

  Status open_backends(const BackendServices& services, Arena& arena) {
    const std::string_view wanted = options_.backends == nullptr ? "auto" : options_.backends;
    if (wanted == "auto") {
      for (size_t i = 0; i < options_.n_extra_backends; ++i) MOTE_RETURN_IF_ERROR(add(extra(i)));
      for (const BackendEntry& entry : built_in_backends())
        if (entry.automatic) MOTE_RETURN_IF_ERROR(open_backend(entry, services, arena));
    } else {
      BackendNames names(wanted);
      for (std::string_view name; names.next(&name);) {
        if (name.empty())
          return Status::error(Code::invalid_argument, "the list of backends ({}) has a name that is empty", wanted);
        MOTE_RETURN_IF_ERROR(check_named_once(name, wanted, names));
        MOTE_RETURN_IF_ERROR(open_named(name, services, arena));
      }
    }
    if (count_ != 0) return {};
    if (first_reason_.ok())
      return Status::error(Code::unsupported, "none of the backends asked for ({}) can be used", wanted);
    return Status::error(Code::unsupported, "none of the backends asked for ({}) can be used: {}", wanted,
                         first_reason_);
  }

  Backend* extra(size_t i) const { return static_cast<Backend*>(options_.extra_backends[i]); }

  // A backend taken twice would be closed twice. `later` follow the name in the list.
  static Status check_named_once(std::string_view name, std::string_view list, BackendNames later) {
    for (std::string_view other; later.next(&other);)
      if (other == name)
        return Status::error(Code::invalid_argument, "the list of backends ({}) names {} twice", list, name);
    return {};
  }

  Status open_named(std::string_view name, const BackendServices& services, Arena& arena) {
    for (size_t i = 0; i < options_.n_extra_backends; ++i)
      if (name == extra(i)->name()) return add(extra(i));
    for (const BackendEntry& entry : built_in_backends())
      if (name == entry.name) return open_backend(entry, services, arena);
    char known[96];
    uint32_t length = 0;
    known[0] = 0;
    for (const BackendEntry& entry : built_in_backends()) {
      const FormatArgument arguments[] = {FormatArgument(length == 0 ? "" : ", "), FormatArgument(entry.name)};
      length += format_sentence(known + length, static_cast<uint32_t>(sizeof known) - length, "{}{}", arguments, 2);
    }
    return Status::error(Code::invalid_argument, "there is no backend {}; this build has {}", name,
                         std::string_view(known, length));
  }

  Status open_backend(const BackendEntry& entry, const BackendServices& services, Arena& arena) {
    const Result<Backend*> backend = entry.create(services, arena);
    if (!backend.ok()) {   // off, with its reason; the others go on
      say(backend.status().c_str());
      if (first_reason_.ok()) first_reason_ = backend.status();
      return {};
    }
    return add(backend.value());
  }

  Status add(Backend* backend) {
    const size_t most = built_in_backends().size() + options_.n_extra_backends;
    if (count_ == kMaxBackends)
      return Status::error(Code::invalid_argument, "an engine takes at most {} backends", kMaxBackends);
    if (count_ == most)
      return Status::error(Code::invalid_argument, "the list of backends ({}) has more than {} names",
                           options_.backends == nullptr ? "auto" : options_.backends, most);
    if (engine_ != nullptr && !engine_->backends.empty()) engine_->backends[count_] = backend;
    ++count_;
    return {};
  }

  void say(const char* line) const {
    if (options_.log != nullptr) options_.log(options_.log_user, line);
  }

 public:
  void keep_opened() { engine_->backends = engine_->backends.first(engine_->backends.empty() ? 0 : count_); }

 private:
  const mote_engine_options& options_;
  CpuLimits limits_;
  uint32_t threads_ = 1;
  IsaBits instruction_sets_ = UINT32_MAX;
  size_t count_ = 0;
  Status first_reason_;   // why the first of those that are off is off
  mote_engine* engine_ = nullptr;
};

Status quote_engine(const mote_engine_options* given, mote_quote* quote) {
  mote_engine_options options;
  MOTE_RETURN_IF_ERROR(read_options(given, "mote_engine_options", &options));
  EngineOpening opening(options);
  MOTE_RETURN_IF_ERROR(opening.check_options());
  Arena arena;
  MOTE_RETURN_IF_ERROR(opening.layout(arena));
  mote_quote filled{};
  filled.total_bytes = arena.used_bytes();
  filled.tables_bytes = round_up(sizeof(mote_engine), kArenaAlignment);
  filled.scratch_bytes = filled.total_bytes - filled.tables_bytes;
  filled.stack_bytes = opening.stack_bytes();
  return write_struct(filled, "quote", quote);
}

void close_engine(mote_engine* engine) {
  for (Backend* backend : engine->backends) backend->close();
  stop_thread_pool(engine->pool);
  const Memory memory = engine->memory;
  release_memory(memory);
}

Status open_engine(const mote_engine_options* given, const mote_memory& memory, mote_engine** engine) {
  if (engine == nullptr) return Status::error(Code::invalid_argument, "engine is NULL");
  *engine = nullptr;
  mote_engine_options options;
  MOTE_RETURN_IF_ERROR(read_options(given, "mote_engine_options", &options));
  mote_engine_options quiet = options;   // the measuring pass does not say twice what is off
  quiet.log = nullptr;
  EngineOpening measuring(quiet);
  MOTE_RETURN_IF_ERROR(measuring.check_options());
  options.threads = measuring.threads();   // asked of the machine once
  Arena sizes;
  MOTE_RETURN_IF_ERROR(measuring.layout(sizes));
  MOTE_ASSIGN_OR_RETURN(const Memory obtained, obtain_memory(memory, sizes.used_bytes(), "the engine"));

  Arena arena(obtained.data, obtained.bytes);
  EngineOpening opening(options, measuring.known_limits());
  Status status = opening.check_options();
  if (status.ok()) status = opening.layout(arena);
  if (mote_engine* opened = opening.engine(); opened != nullptr) {
    opening.keep_opened();
    opened->memory = obtained;
    if (!status.ok()) close_engine(opened);
  } else if (!status.ok()) {
    release_memory(obtained);
  }
  MOTE_RETURN_IF_ERROR(status);
  *engine = opening.engine();
  return {};
}

}   // namespace
}   // namespace mote

extern "C" {

const char* mote_status_name(mote_status status) {
  switch (status) {
    case MOTE_OK:
      return "MOTE_OK";
    case MOTE_INVALID_ARGUMENT:
      return "MOTE_INVALID_ARGUMENT";
    case MOTE_IO:
      return "MOTE_IO";
    case MOTE_BAD_MODEL:
      return "MOTE_BAD_MODEL";
    case MOTE_UNSUPPORTED:
      return "MOTE_UNSUPPORTED";
    case MOTE_OUT_OF_MEMORY:
      return "MOTE_OUT_OF_MEMORY";
    case MOTE_BUFFER_TOO_SMALL:
      return "MOTE_BUFFER_TOO_SMALL";
    case MOTE_CONTEXT_FULL:
      return "MOTE_CONTEXT_FULL";
    case MOTE_CANCELLED:
      return "MOTE_CANCELLED";
    case MOTE_WRONG_STATE:
      return "MOTE_WRONG_STATE";
    case MOTE_BUSY:
      return "MOTE_BUSY";
    case MOTE_NOT_FINITE:
      return "MOTE_NOT_FINITE";
    case MOTE_BACKEND_FAILED:
      return "MOTE_BACKEND_FAILED";
  }
  return "unknown status";
}

const char* mote_version(void) { return MOTE_VERSION; }

mote_status mote_engine_quote(const mote_engine_options* options, mote_quote* quote, mote_error* error) {
  return mote::report(mote::quote_engine(options, quote), error);
}

mote_status mote_engine_open(const mote_engine_options* options, mote_memory memory, mote_engine** engine,
                             mote_error* error) {
  return mote::report(mote::open_engine(options, memory, engine), error);
}

mote_status mote_engine_close(mote_engine* engine, mote_error* error) {
  if (engine == nullptr) return MOTE_OK;
  if (const uint32_t n = engine->n_models.load(); n != 0)
    return mote::report(mote::Status::error(mote::Code::wrong_state, "the engine still has {} open models", n), error);
  mote::close_engine(engine);
  return MOTE_OK;
}

uint32_t mote_engine_threads(const mote_engine* engine) {
  return engine == nullptr ? 0 : engine->services.parallel.lanes;
}

}   // extern "C"
