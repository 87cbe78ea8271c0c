// What a backend implements. It follows the version of mote: one that was compiled against other headers is refused by
// name when the engine opens (interface_version.h).
//
// Two stages, because packing weights belongs to the model and recording work to the session:
//   compile   once per model:   weights packed, kernels chosen       -> Program, in the model's arena
//   open      once per session: state, scratch, recorded commands    -> Executor, in the session's arena
// Both take their memory from an Arena; while that only measures (Arena::measuring) they take everything they would
// take, read no weight vector (their data is null then) and return a null pointer with ok. The quotes rest on it: what
// is measured and what is taken must be the same bytes. Measuring leaves nothing on a device and never fails for one:
// it may ask a device that is there how much things would take, and does without where that does not answer.
//
// backend_failed, from whichever call, says that another backend may succeed: a device is lost or has no memory left, a
// driver refuses. The model or the session then goes on without this backend (core/pipeline/fallback.h), which is still
// asked to `close` what it has open. unsupported from `compile` or `open` says so of this part, or of this shape (a
// cache that is larger than a shader may see); measuring says it too where it can be known, and the quote is then one
// without this backend. An arena that ran out is out_of_memory; that is the caller's to mend.
//
// No exceptions and no RTTI on either side; nothing here is ever destroyed through a base pointer. What needs more
// than forgetting (a device, a library's handle) is released in `close`.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "core/base/arena.h"
#include "core/base/result.h"
#include "core/ops/interface_version.h"
#include "core/ops/plan.h"
#include "platform/parallel.h"

namespace mote {

enum class KvType : uint8_t { f16, f32 };

// What a session may ask for at most; fixed when it opens.
struct SessionShape {
  uint32_t max_batch = 0;     // rows of a batch, Dimension::tokens
  uint32_t max_outputs = 0;   // Dimension::outputs
  uint32_t context = 0;       // positions
  KvType kv_type = KvType::f16;
};

// Positions that a state may hold.
inline uint32_t capacity_of(const StateInfo& state, const SessionShape& shape) {
  return state.phase == Phase::encode ? shape.max_batch : shape.context;
}

// Bytes of one position of a state as it is exported: keys and values in the session's KV type, a recurrent vector in
// f32, so that it is whole whatever they are.
inline uint64_t state_row_bytes(const StateInfo& state, KvType type) {
  const uint64_t values = uint64_t{state.n_kv_heads} * (uint64_t{state.key_dim} + state.value_dim);
  return values * (type == KvType::f16 && !state.recurrent() ? 2 : 4);
}

struct Batch;

// Told of a run where somebody wants to know what its steps take (mote_dev_profile).
struct StepObserver {
  void* self;
  void (*part_begins)(void* self, const PlanPart& part, const Batch& batch);   // said by the pipeline
  // The step, and what a backend ran along with it, is done. A backend that cannot tell its steps apart never says so.
  void (*step_ended)(void* self, const Step& step);
};

// The rows of one run. Positions are consecutive: row r stands at first_position + r.
struct Batch {
  std::span<const int32_t> tokens;   // [rows], at least one, each below n_vocab (checked by the session)
  uint32_t first_position = 0;
  std::span<const uint32_t> output_rows;   // [outputs], rising row numbers whose logits are wanted
  // Only the steps of this phase run. `encode`: the rows are the whole of an encoder's input, from position 0 on.
  Phase phase = Phase::decode;
  uint32_t n_encoded = 0;   // positions that states of the phase `encode` hold; in that phase, its own rows
  const StepObserver* observer = nullptr;   // mostly there is none
  // Lanes of BackendServices::parallel that the run may take (Parallel::on_at_most); 0: all of them. What `open` took
  // is enough for all.
  uint32_t lanes = 0;

  void step_ended(const Step& step) const {
    if (observer != nullptr) observer->step_ended(observer->self, step);
  }
};

// Rows that a Value has in a batch, and at most.
inline uint32_t rows_of(Value value, const Batch& batch) {
  if (value.rows == Dimension::one) return 1;
  return static_cast<uint32_t>(value.rows == Dimension::tokens ? batch.tokens.size() : batch.output_rows.size());
}
inline uint32_t most_rows_of(Value value, const SessionShape& shape) {
  if (value.rows == Dimension::one) return 1;
  return value.rows == Dimension::tokens ? shape.max_batch : shape.max_outputs;
}

// Positions that a column of a Value has in a batch, and at most.
inline uint32_t positions_of(Value value, const Batch& batch) {
  if (value.extent == Extent::single) return 1;
  return value.extent == Extent::input ? batch.n_encoded
                                       : batch.first_position + static_cast<uint32_t>(batch.tokens.size());
}
inline uint32_t most_positions_of(Value value, const SessionShape& shape) {
  if (value.extent == Extent::single) return 1;
  return value.extent == Extent::input ? shape.max_batch : shape.context;
}

// Where the Values of a session live: f32, [rows, columns, positions] without gaps, as many of each as the batch has,
// at multiples of 64 bytes. A Value that no host backend touches has no place here (null).
class ValueMemory {
 public:
  static constexpr uint64_t kNowhere = UINT64_MAX;
  ValueMemory() = default;
  ValueMemory(std::byte* base, std::span<const uint64_t> offset_bytes) : base_(base), offset_bytes_(offset_bytes) {}
  float* data(Value value) const {
    const uint64_t offset = offset_bytes_[value.id];
    return offset == kNowhere ? nullptr : reinterpret_cast<float*>(base_ + offset);
  }
  // Whether the Value has a place, also while measuring: then `data` says nothing.
  bool placed(Value value) const { return offset_bytes_[value.id] != kNowhere; }

 private:
  std::byte* base_ = nullptr;
  std::span<const uint64_t> offset_bytes_;   // by Value::id
};

// Set from any thread; looked at between steps, and by a step that may be long (attention over a long input) within it.
class CancelFlag {
 public:
  explicit CancelFlag(const std::atomic<uint32_t>* flag = nullptr) : flag_(flag) {}
  bool requested() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed) != 0; }

 private:
  const std::atomic<uint32_t>* flag_;
};

// How the bytes that `open` took from its arena divide, and what they hold elsewhere. Added to.
struct Footprint {
  uint64_t state_bytes = 0;     // open: what sequences carry; the rest is working memory
  uint64_t device_bytes = 0;    // on a device, outside the arenas
  uint64_t library_bytes = 0;   // what a library under the backend is expected to take for itself
};

// A compiled part of a plan. Only its backend knows what is inside.
class Program {
 public:
  virtual void close() {}
  // A step whose weights are not run as the file has them: the root mean square of what that changes, over the root
  // mean square of the weights. `index` counts in the part. 0: as the file has them.
  virtual double weight_error(uint32_t /*index*/) const { return 0; }

 protected:
  ~Program() = default;
};

// A part of a plan made ready for one session. One thread at a time.
class Executor {
 public:
  // Runs the steps of the batch's phase. The states it owns take the batch's rows at its positions. Values made by
  // other parts are there already. Cancelled, or failed: the caller will `discard`. A NaN that `append` was given or
  // `rnn` came to fails the run at its end (first_nan.h). A part has steps of both phases only where a state is used in
  // both; it is not asked to run a phase that it has no steps of.
  virtual Status run(const Batch& batch, CancelFlag cancel) = 0;

  // Around a batch of the phase `decode`: after a `begin` that succeeded either `commit`, or `discard`, which brings
  // the states back to what they were. A part without states may begin anywhere; one with states at most where its
  // sequence ends, and beginning before that forgets what lies behind. States of the phase `encode` are not touched by
  // these, nor by `truncate`: a batch of that phase is run alone, and writes them anew. After one that did not get to
  // its end, nobody reads them before the next.
  virtual Status begin(uint32_t first_position, uint32_t rows) = 0;
  virtual void commit() = 0;
  virtual void discard() = 0;

  // Forgets all positions from `positions` on. wrong_state when a ring no longer holds the window before it, or the
  // vector of a recurrent state has gone on; 0 always succeeds.
  virtual Status truncate(uint32_t positions) = 0;

  // One position of one state of the phase `decode` in the form every backend shares: keys [n_kv_heads, key_dim], then
  // values [n_kv_heads, value_dim], in the session's KV type; of a recurrent vector the last position alone, in f32.
  // `state` is one that the part owns. Rows are imported after `truncate(0)`, rising and without gaps, from the first
  // one that a later query sees: of what lies before it nothing is asked until the next `truncate(0)`. They may come
  // from a file: what is not finite becomes what `append` makes of it.
  virtual Status export_row(State state, uint32_t position, std::span<uint8_t> to) = 0;
  virtual Status import_row(State state, uint32_t position, std::span<const uint8_t> from) = 0;

  virtual void close() {}

 protected:
  ~Executor() = default;
};

// What the engine lends its backends.
struct BackendServices {
  Parallel parallel;
  // Which of the processor's instruction sets kernels may use beyond the library's baseline, as bits of
  // platform/instruction_sets.h; 0 leaves the scalar ones. For tests and comparisons: no bit of a result depends on it.
  uint32_t instruction_sets = UINT32_MAX;
};

// How a backend rounds and in which order it adds.
struct Arithmetic {
  const char* name;   // as long as the backend
  uint32_t version;   // rises whenever any bit of any result may change
};

inline constexpr uint32_t kInterfaceVersion =
    interface_version<SessionShape, Batch, ValueMemory, CancelFlag, Footprint, BackendServices, Arithmetic>();

// `supports`, `compile` and `open` of one backend may be called from several threads at once: models and sessions of
// one engine are opened whenever the app likes.
class Backend {
 public:
  // Stays the first function, and `interface_version_` the first field: the engine looks at these two before it trusts
  // the rest.
  virtual const char* name() const = 0;
  uint32_t interface_version() const { return interface_version_; }
  // The same steps under the same arithmetic give the same bits from the same states, on every machine and in every
  // build: what is restored from a snapshot must have been made under the arithmetic that goes on. A backend whose
  // bits depend on a device or a driver has them in the name.
  virtual Arithmetic arithmetic() const { return {name(), 1}; }
  // True when Values and states of its steps live in host memory (then the planner gives them a place).
  virtual bool uses_host_values() const = 0;
  // How many bytes behind the end of a Value its steps may read, without using what they find there: the planner puts
  // them behind every Value.
  virtual uint32_t over_read_bytes() const { return 0; }
  // A pure function of the step and the device: prints the support matrix and decides the placement. The step's data
  // pointers may be null. `plan` gives the states' shapes.
  virtual bool supports(const Step& step, const Plan& plan) const = 0;
  virtual Result<Program*> compile(const PlanPart& part, Arena& model_arena, Footprint* footprint) = 0;
  // `program` is null while measuring before the model is open.
  virtual Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape,
                                 const ValueMemory& values, Arena& session_arena, Footprint* footprint) = 0;
  // Called once by each engine that has taken this backend, when it closes or its opening fails: all programs and
  // executors are closed by then. It holds for an app's own backend too, which stays the app's: lend one to a second
  // engine only where `close` allows to go on.
  virtual void close() {}

 protected:
  // The default stays as it is: it is the number of the headers that the deriving class sees. (The caller passes it: a
  // function in this header would be shared with the library's own copy by the linker, and always say the same.)
  explicit Backend(uint32_t version = kInterfaceVersion) : interface_version_(version) {}
  ~Backend() = default;

 private:
  uint32_t interface_version_;
};

// One row of the table of compiled-in backends.
struct BackendEntry {
  const char* name;
  // Makes the backend in the engine's arena (measuring: takes the bytes, returns null). An unusable device is a status
  // that says why, also while measuring, which may open a device and close it again to know; the engine then goes on
  // without this backend.
  Result<Backend*> (*create)(const BackendServices& services, Arena& engine_arena);
  bool automatic = true;   // false: opened only when it is named, never as one of "auto"
};

// Defined in backends/registry.cpp, in the order of preference.
std::span<const BackendEntry> built_in_backends();

}   // namespace mote
