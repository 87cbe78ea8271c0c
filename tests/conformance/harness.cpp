#include "tests/conformance/harness.h"

#include <algorithm>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "core/base/bytes.h"
#include "core/base/half.h"
#include "tests/support/drivers.h"
#include "tests/support/emulated.h"

#if defined(__SANITIZE_THREAD__)
#define MOTE_TEST_WATCHES_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOTE_TEST_WATCHES_THREADS 1
#endif
#endif

namespace mote::test {
namespace {

// ThreadSanitizer sees our half alone of what we and a driver's threads do.
#ifdef MOTE_TEST_WATCHES_THREADS
constexpr bool kWatchesThreads = true;
#else
constexpr bool kWatchesThreads = false;
#endif

[[noreturn]] void fail(const std::string& sentence) { throw std::runtime_error(sentence); }
void need(const Status& status, const std::string& what) {
  if (!status.ok()) fail(what + ": " + std::string(status.message()));
}

constexpr uint32_t kMaxThreads = 8;

// `most`: the lanes that the batch may take.
void run_lanes_backwards(void* most, uint32_t lanes, ParallelTask task, void* context) {
  if (lanes > *static_cast<uint32_t*>(most)) fail("a region took more lanes than its batch may");
  for (uint32_t lane = lanes; lane-- > 0;) task(context, lane);
}
void cancel_and_run_lanes(void* of_rig, uint32_t lanes, ParallelTask task, void* context) {
  static_cast<RunOptions*>(of_rig)->cancel_in_region->store(1);
  run_lanes_backwards(&lanes, lanes, task, context);
}
void run_lanes_on_threads(void* most, uint32_t lanes, ParallelTask task, void* context) {
  if (lanes > *static_cast<uint32_t*>(most)) fail("a region took more lanes than its batch may");
  std::thread threads[kMaxThreads];
  for (uint32_t lane = 1; lane < lanes; ++lane) threads[lane] = std::thread(task, context, lane);
  task(context, 0);
  for (uint32_t lane = 1; lane < lanes; ++lane) threads[lane].join();
}

// What both layouts must agree on: `use` measures, then takes exactly the measured bytes, and fails with one less.
template <class Use>
GuardedMemory exactly(const char* what, Guard guard, const Use& use) {
  Arena measuring;
  use(measuring, true, false);
  const uint64_t bytes = measuring.used_bytes();
  if (bytes != 0) {
    GuardedMemory memory(bytes, kArenaAlignment, guard, 0xFF);
    Arena too_small(memory.data(), bytes - 1);
    use(too_small, false, true);
    if (const std::string damage = memory.damage(); !damage.empty())
      fail(std::string(what) + " with a byte less: " + damage);
  }
  // An arena without memory only measures, so even nothing has an address.
  GuardedMemory memory(std::max<uint64_t>(bytes, kArenaAlignment), kArenaAlignment, guard, 0xFF);
  Arena arena(memory.data(), bytes);
  use(arena, false, false);
  if (arena.used_bytes() != bytes)
    fail(std::string(what) + " measured " + std::to_string(bytes) + " bytes and took " +
         std::to_string(arena.used_bytes()));
  return memory;
}

// The checks on a Result of create, compile or open.
template <class T>
T* checked(const char* what, const Result<T*>& result, bool measures, bool must_fail) {
  if (must_fail) {
    if (result.ok()) fail(std::string(what) + " succeeded with a byte less than it measured");
    if (result.status().code() != Code::out_of_memory || result.status().message().empty())
      fail(std::string(what) + " with a byte less is not out_of_memory with a sentence");
    return nullptr;
  }
  need(result.status(), what);
  if (measures != (result.value() == nullptr))
    fail(std::string(what) + (measures ? " gave something while measuring" : " gave null"));
  return result.value();
}

// A backend that has a device is opened once for all cases, the others for each: a device takes long to open.
struct SharedBackend {
  GuardedMemory memory;
  Backend* backend = nullptr;
  std::string problem;   // why there is none
};
std::map<std::string, SharedBackend>& shared_backends() {
  static std::map<std::string, SharedBackend> all;
  return all;
}
uint32_t one_lane = 1;

bool has_device(const BackendEntry& entry) { return std::string_view(entry.name) == "vulkan"; }

SharedBackend& share(const BackendEntry& entry) {
  const auto [found, is_new] = shared_backends().try_emplace(entry.name);
  SharedBackend& shared = found->second;
  if (!is_new) return shared;
  keep_vulkan_drivers_loaded();
  BackendServices services;
  services.parallel.lanes = one_lane;
  services.parallel.self = &one_lane;
  services.parallel.run_region = run_lanes_backwards;
  Arena measuring;
  const Status status = entry.create(services, measuring).status();
  if (!status.ok()) {
    if (status.code() != Code::unsupported || status.message().empty())
      fail("create: " + std::string(status.message()));
    shared.problem = status.message();
    return shared;
  }
  shared.memory = exactly("create", Guard::pages, [&](Arena& arena, bool measures, bool must_fail) {
    shared.backend = checked("create", entry.create(services, arena), measures, must_fail);
  });
  return shared;
}

// They are closed before the process begins to end: layers and drivers do not like to be asked later.
class CloseBackends : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats&) override {
    for (auto& [name, shared] : shared_backends())
      if (shared.backend != nullptr) shared.backend->close();
    shared_backends().clear();
  }
};
CATCH_REGISTER_LISTENER(CloseBackends)

}   // namespace

std::string why_unusable(const BackendEntry& entry) { return has_device(entry) ? share(entry).problem : std::string(); }

bool tries_all_backends() { return std::getenv("MOTE_CONFORMANCE_BACKEND") == nullptr; }

std::vector<BackendEntry> backends_under_test() {
  const char* only = std::getenv("MOTE_CONFORMANCE_BACKEND");
  std::vector<BackendEntry> backends;
  for (const BackendEntry& entry : built_in_backends()) {
    if (only != nullptr && std::string_view(only) != entry.name) continue;
    if (kWatchesThreads && !entry.automatic) continue;
    const std::string problem = why_unusable(entry);
    if (problem.empty())
      backends.push_back(entry);
    else if (only != nullptr || (!is_emulated() && std::getenv("MOTE_VULKAN_MUST_RUN") != nullptr))
      fail(problem);
  }
  return backends;
}

const BackendEntry& oracle_entry() {
  for (const BackendEntry& entry : built_in_backends())
    if (std::string_view(entry.name) == "reference") return entry;
  fail("this build has no reference backend");
}

Rig::Rig(const BackendEntry& entry, const Case& test_case, const RunOptions& options)
    : case_(test_case), options_(options) {
  if (options_.lanes > kMaxThreads) fail("too many lanes");
  if (options_.cuts.empty()) options_.cuts = {case_.positions()};
  if (options_.max_batch == 0) options_.max_batch = std::max(*std::ranges::max_element(options_.cuts), case_.n_encoded);
  shape_.max_batch = options_.max_batch;
  shape_.max_outputs = std::max<uint32_t>(1, static_cast<uint32_t>(case_.wanted.size()));
  shape_.context = case_.first_position + case_.positions();
  shape_.kv_type = case_.kv_type;
  parallel_.lanes = options_.lanes;
  most_lanes_ = options_.lanes;
  parallel_.self = &most_lanes_;
  parallel_.run_region = options_.threads ? run_lanes_on_threads : run_lanes_backwards;
  if (options_.cancel_in_region != nullptr) {
    parallel_.self = &options_;
    parallel_.run_region = cancel_and_run_lanes;
  }
  wire_plan();
  make_backend(entry);
  if (backend_ == nullptr) return;
  lay_out_values();
  supported_ =
      std::ranges::all_of(blank_steps_, [&](const Step& step) { return backend_->supports(step, blank_plan_); });
  if (supported_) open();
}

Rig::~Rig() {
  if (executor_ != nullptr) executor_->close();
  if (program_ != nullptr) program_->close();
  if (backend_ != nullptr && !shares_backend_) backend_->close();
}

Status Rig::compile(Steps steps) {
  Arena measuring;
  return backend_->compile({&blank_plan_, steps.first, steps.count}, measuring, nullptr).status();
}

// Copies of all weights into guarded memory, the steps pointing at them.
void Rig::wire_plan() {
  const TestPlan& plan = case_.plan;
  steps_ = plan.steps;
  blank_steps_ = plan.steps;
  const auto keep = [&](const void* from, uint64_t bytes, uint64_t alignment) {
    const uint8_t* begin = static_cast<const uint8_t*>(from);
    GuardedMemory memory(bytes, alignment, options_.guard, 0);
    std::memcpy(memory.data(), from, bytes);
    void* at = memory.data();
    constants_.emplace_back(std::move(memory), std::vector<uint8_t>(begin, begin + bytes));
    return at;
  };
  for (const auto& [step, bytes] : plan.matrices)
    steps_[step].matrix.data = static_cast<const uint8_t*>(keep(bytes.data(), bytes.size(), 1));
  for (const auto& [step, data] : plan.vectors)
    steps_[step].vector.data = static_cast<const float*>(keep(data.data(), data.size() * 4, alignof(float)));
  for (const auto& [step, data] : plan.biases)
    steps_[step].bias.data = static_cast<const float*>(keep(data.data(), data.size() * 4, alignof(float)));
  for (const auto& [step, data] : plan.frequencies) {
    const auto* at = static_cast<const double*>(keep(data.data(), data.size() * 8, alignof(double)));
    if (steps_[step].op == Op::position_embed)
      steps_[step].attributes.position_embed.frequency = at;
    else
      steps_[step].attributes.rope_angles.frequency = at;
  }
  plan_.steps = steps_;
  plan_.values = plan.values;
  plan_.states = plan.states;
  plan_.logits = case_.compared;
  blank_plan_ = plan_;
  blank_plan_.steps = blank_steps_;
}

void Rig::lay_out_values() {
  const Step& last = steps_.back();
  for (uint16_t id = 0; id < plan_.values.size(); ++id) {
    const ValueInfo& info = plan_.values[id];
    const Value value{id, info.rows, info.extent, info.columns};
    const uint64_t numbers = uint64_t{most_rows_of(value, shape_)} * info.columns * most_positions_of(value, shape_);
    const bool aliased = options_.in_place && last.output.id == id;
    const uint64_t bytes = numbers * 4 + over_read_bytes_;
    value_memory_.push_back(aliased ? GuardedMemory() : GuardedMemory(bytes, kArenaAlignment, options_.guard, 0xFF));
    std::byte* at = value_memory_.back().data();
    if (at != nullptr && (base_ == nullptr || at < base_)) base_ = at;
  }
  for (const GuardedMemory& memory : value_memory_)
    offset_bytes_.push_back(memory.data() == nullptr ? 0 : static_cast<uint64_t>(memory.data() - base_));
  if (options_.in_place) offset_bytes_[last.output.id] = offset_bytes_[last.inputs[0].id];
}

void Rig::make_backend(const BackendEntry& entry) {
  if (has_device(entry)) {
    backend_ = share(entry).backend;
    shares_backend_ = true;
    return;
  }
  engine_ = exactly("create", options_.guard, [&](Arena& arena, bool measures, bool must_fail) {
    backend_ = checked("create", entry.create(BackendServices{parallel_}, arena), measures, must_fail);
  });
  over_read_bytes_ = backend_->over_read_bytes();
}

void Rig::open() {
  const PlanPart part{&plan_, 0, static_cast<uint32_t>(steps_.size())};
  const PlanPart blank{&blank_plan_, 0, static_cast<uint32_t>(steps_.size())};
  uint64_t quoted_device_bytes = 0;
  // What was quoted is taken from a device too.
  const auto check_device = [&](const char* what, const Footprint& footprint, bool measures, bool must_fail) {
    if (measures) quoted_device_bytes = footprint.device_bytes;
    if (!measures && !must_fail && footprint.device_bytes != quoted_device_bytes)
      fail(std::string(what) + " quoted " + std::to_string(quoted_device_bytes) + " bytes of the device and took " +
           std::to_string(footprint.device_bytes));
  };
  model_ = exactly("compile", options_.guard, [&](Arena& arena, bool measures, bool must_fail) {
    Footprint footprint;
    program_ = checked("compile", backend_->compile(measures ? blank : part, arena, &footprint), measures, must_fail);
    check_device("compile", footprint, measures, must_fail);
  });
  session_ = exactly("open", options_.guard, [&](Arena& arena, bool measures, bool must_fail) {
    Footprint footprint;
    const ValueMemory values(measures ? nullptr : base_, offset_bytes_);
    executor_ = checked(
        "open",
        backend_->open(measures ? blank : part, measures ? nullptr : program_, shape_, values, arena, &footprint),
        measures, must_fail);
    check_device("open", footprint, measures, must_fail);
    if (!must_fail && footprint.state_bytes > arena.used_bytes())
      fail("open counts more state and scratch than it takes");
  });
}

namespace {

// Numbers in the list of wanted positions that lie in rows [first, first + rows): [begin, end).
std::pair<size_t, size_t> wanted_range(const Case& test_case, uint32_t first, uint32_t rows) {
  const auto begin = std::ranges::lower_bound(test_case.wanted, first);
  const auto end = std::ranges::lower_bound(test_case.wanted, first + rows);
  return {static_cast<size_t>(begin - test_case.wanted.begin()), static_cast<size_t>(end - test_case.wanted.begin())};
}

}   // namespace

// The phase's inputs get their rows; everything else, and what lies behind those rows, is NaN.
void Rig::fill_values(uint32_t first, uint32_t rows, Phase phase) {
  last_first_ = first;
  last_rows_ = rows;
  last_phase_ = phase;
  for (GuardedMemory& memory : value_memory_)
    if (memory.data() != nullptr) std::memset(memory.data(), 0xFF, memory.bytes());
  const auto [wanted_begin, wanted_end] = wanted_range(case_, first, rows);
  for (const auto& [id, data] : case_.plan.inputs) {
    if (case_.plan.phase_of(id) != phase) continue;
    const size_t columns = plan_.values[id].columns;
    const bool by_token = plan_.values[id].rows == Dimension::tokens;
    const size_t from = by_token ? first : wanted_begin, count = by_token ? rows : wanted_end - wanted_begin;
    if (count * columns != 0) std::memcpy(value_memory_[id].data(), data.data() + from * columns, count * columns * 4);
  }
}

bool Rig::wrote_output() const {
  const GuardedMemory& memory = value_memory_[case_.compared.id];
  const auto* bytes = reinterpret_cast<const uint8_t*>(memory.data());
  return std::any_of(bytes, bytes + memory.bytes(), [](uint8_t byte) { return byte != 0xFF; });   // as it was filled
}

Status Rig::run_only(uint32_t first, uint32_t rows, const std::atomic<uint32_t>* cancel) {
  fill_values(first, rows, Phase::decode);
  const auto [begin, end] = wanted_range(case_, first, rows);
  std::vector<uint32_t> wanted;
  for (size_t i = begin; i < end; ++i) wanted.push_back(case_.wanted[i] - first);
  // One row takes as many lanes as a session may have it take: each number in its turn.
  most_lanes_ = rows == 1 ? 1 + first % options_.lanes : options_.lanes;
  const Batch batch{std::span(case_.tokens).subspan(first, rows),
                    case_.first_position + first,
                    wanted,
                    Phase::decode,
                    case_.n_encoded,
                    options_.observer,
                    rows == 1 ? most_lanes_ : 0};
  const Status status = executor_->run(batch, CancelFlag(cancel));
  if (status.ok()) collect(rows, wanted.size());
  return status;
}

Status Rig::run_input(const std::atomic<uint32_t>* cancel) {
  fill_values(0, case_.n_encoded, Phase::encode);
  most_lanes_ = options_.lanes;
  const std::vector<int32_t> tokens(case_.n_encoded);
  const Status status = executor_->run({tokens, 0, {}, Phase::encode, case_.n_encoded}, CancelFlag(cancel));
  if (status.ok() && !case_.decodes()) collect(case_.n_encoded, 0);
  return status;
}

void Rig::collect(uint32_t rows, size_t outputs) {
  if (!case_.compared.exists()) return;
  if (case_.compared.extent == Extent::past) return collect_past(rows);
  size_t count = case_.compared.rows == Dimension::tokens ? rows : outputs;
  if (case_.compared.rows == Dimension::one) count = 1;
  count *= case_.compared.columns;
  if (case_.compared.extent == Extent::input) count *= case_.n_encoded;
  const float* from = ValueMemory(base_, offset_bytes_).data(case_.compared);
  output_.insert(output_.end(), from, from + count);
}

// As wide as the whole sequence, whatever the batch: what a batch has no positions for is 0.
void Rig::collect_past(uint32_t rows) {
  const size_t positions = case_.first_position + last_first_ + rows;
  const float* from = ValueMemory(base_, offset_bytes_).data(case_.compared);
  for (size_t item = 0; item < size_t{rows} * case_.compared.columns; ++item) {
    output_.insert(output_.end(), from + item * positions, from + (item + 1) * positions);
    output_.insert(output_.end(), shape_.context - positions, 0.0F);
  }
}

void Rig::run_batch(uint32_t first, uint32_t rows) {
  need(executor_->begin(case_.first_position + first, rows), "begin");
  need(run_only(first, rows), "run");
  executor_->commit();
}

void Rig::run_all() {
  if (case_.n_encoded != 0) need(run_input(), "run of the input");
  if (!case_.decodes()) return;
  uint32_t first = 0;
  for (const uint32_t rows : options_.cuts) {
    run_batch(first, rows);
    first += rows;
  }
  if (first != case_.positions()) fail("the cuts do not add up to the sequence");
}

uint64_t Rig::state_row_bytes(uint16_t state) const {
  return mote::state_row_bytes(plan_.states[state], case_.kv_type);
}

std::vector<std::vector<uint8_t>> Rig::export_state(uint16_t state, uint32_t positions) {
  std::vector<std::vector<uint8_t>> rows;
  for (uint32_t position = 0; position < positions; ++position) {
    GuardedMemory row(state_row_bytes(state), 1, options_.guard, 0xFF);
    uint8_t* at = reinterpret_cast<uint8_t*>(row.data());
    State handle;
    handle.id = state;
    need(executor_->export_row(handle, position, {at, row.bytes()}), "export_row");
    if (const std::string damage = row.damage(); !damage.empty()) fail("export_row: " + damage);
    rows.emplace_back(at, at + row.bytes());
  }
  return rows;
}

void Rig::check_memory() const {
  const auto whole = [](const GuardedMemory& memory, const std::string& what) {
    if (memory.data() == nullptr) return;
    if (const std::string damage = memory.damage(); !damage.empty()) fail(what + ": " + damage);
  };
  whole(engine_, "the engine's memory");
  whole(model_, "the model's memory");
  whole(session_, "the session's memory");
  for (size_t id = 0; id < value_memory_.size(); ++id) {
    const GuardedMemory& memory = value_memory_[id];
    whole(memory, "Value " + std::to_string(id));
    for (uint64_t i = 0; memory.data() != nullptr && i < over_read_bytes_; ++i)
      if (memory.data()[memory.bytes() - 1 - i] != std::byte{0xFF})
        fail("what may be read behind Value " + std::to_string(id) + " was written");
  }
  for (const auto& [memory, bytes] : constants_) {
    whole(memory, "a weight");
    if (std::memcmp(memory.data(), bytes.data(), bytes.size()) != 0) fail("a weight was written");
  }
  // The last batch's input rows are what they were.
  for (const auto& [id, data] : case_.plan.inputs) {
    if (case_.plan.phase_of(id) != last_phase_) continue;
    if (plan_.values[id].rows != Dimension::tokens || (options_.in_place && steps_.back().inputs[0].id == id)) continue;
    const size_t columns = plan_.values[id].columns;
    if (std::memcmp(value_memory_[id].data(), data.data() + last_first_ * columns, last_rows_ * columns * 4) != 0)
      fail("input Value " + std::to_string(id) + " was written");
  }
}

std::vector<float> state_values(Rig& rig, const Case& test_case) {
  std::vector<float> values;
  for (const std::vector<uint8_t>& row : rig.export_state(0, test_case.positions())) {
    if (test_case.kv_type == KvType::f16) {
      for (size_t i = 0; i < row.size(); i += 2) values.push_back(f16_to_f32(load_le<uint16_t>(&row[i])));
    } else {
      for (size_t i = 0; i < row.size(); i += 4) values.push_back(load_le<float>(&row[i]));
    }
  }
  return values;
}

std::vector<float> oracle(const Case& test_case) {
  Rig rig(oracle_entry(), test_case, RunOptions{});
  if (!rig.supported()) fail("the oracle does not run " + test_case.name);
  rig.run_all();
  rig.check_memory();
  return test_case.compared.exists() ? rig.output() : state_values(rig, test_case);
}

}   // namespace mote::test
