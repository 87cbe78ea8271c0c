// The sequence's part of a snapshot: written from a sequence, checked against another one, restored into it.
#include "core/pipeline/snapshot.h"

#include <cstring>

#include "core/base/bytes.h"
#include "core/base/slice.h"
#include "core/pipeline/sequence.h"

namespace mote {
namespace {

void write_state(const StateInfo& state, uint8_t* to) {
  const uint32_t fields[] = {state.layer,     state.n_kv_heads, state.key_dim,
                             state.value_dim, state.window,     static_cast<uint32_t>(state.phase)};
  static_assert(sizeof fields == SequenceHeader::kStateBytes);
  std::memcpy(to, fields, sizeof fields);
}

const char* kv_name(uint32_t type) {
  if (type == static_cast<uint32_t>(KvType::f16)) return "f16";
  return type == static_cast<uint32_t>(KvType::f32) ? "f32" : "of an unknown type";
}

// Adds "name version" to a list of names unless it stands there, as far as there is room.
void add_name(char (&names)[48], size_t* length, const Arithmetic& arithmetic) {
  char text[48];
  const std::string_view pattern = "{} {}";
  const FormatArgument arguments[] = {arithmetic.name, arithmetic.version};
  const std::string_view added(text, format_sentence(text, sizeof text, pattern, arguments, 2));
  const std::string_view so_far(names, *length);
  for (size_t at = 0; at < so_far.size();) {
    const size_t comma = so_far.find(", ", at), end = comma == std::string_view::npos ? so_far.size() : comma;
    if (slice(so_far, at, end - at) == added) return;
    at = end + 2;
  }
  for (const std::string_view piece : {std::string_view(*length == 0 ? "" : ", "), added})
    for (const char c : piece)
      if (*length + 1 < sizeof names) names[(*length)++] = c;
}

}   // namespace

PlacedArithmetic placed_arithmetic(std::span<const PlacedPart> parts) {
  PlacedArithmetic placed;
  size_t length = 0;
  Sha256 places;
  for (size_t i = 0; i < parts.size();) {
    const Arithmetic arithmetic = parts[i].backend->arithmetic();
    const std::string_view name = arithmetic.name;
    uint64_t steps = 0;
    for (; i < parts.size(); ++i) {   // neighbours of one arithmetic are one run, whoever computes them
      const Arithmetic next = parts[i].backend->arithmetic();
      if (next.version != arithmetic.version || name != next.name) break;
      for (const Step& step : parts[i].part.steps()) steps += step.op != Op::attention_weights;   // taps: of no bit
    }
    places.add_number(steps);
    places.add_number(arithmetic.version);
    places.add_number(name.size());
    places.add(name);
    add_name(placed.names, &length, arithmetic);
  }
  placed.places = places.finish();
  return placed;
}

void SequenceHeader::write(uint8_t* to) const {
  std::memcpy(to, arithmetic.names, sizeof arithmetic.names);
  std::memcpy(to + 48, arithmetic.places.data(), arithmetic.places.size());
  const uint32_t numbers[] = {kv_type, n_vocab, n_states, n_history, n_run, has_logits};
  std::memcpy(to + 80, numbers, sizeof numbers);
  store_le(to + 104, n_dropped);
  store_le(to + 112, uint64_t{n_input});
}

SequenceHeader SequenceHeader::read(const uint8_t* from) {
  SequenceHeader header;
  std::memcpy(header.arithmetic.names, from, sizeof header.arithmetic.names);
  std::memcpy(header.arithmetic.places.data(), from + 48, header.arithmetic.places.size());
  uint32_t* const numbers[] = {&header.kv_type,   &header.n_vocab, &header.n_states,
                               &header.n_history, &header.n_run,   &header.has_logits};
  for (size_t i = 0; i < std::size(numbers); ++i) *numbers[i] = load_le<uint32_t>(from + 80 + 4 * i);
  header.n_dropped = load_le<uint64_t>(from + 104);
  header.n_input = load_le<uint32_t>(from + 112);
  return header;
}

// ------------------------------------------------------------------------------------------------ the sequence

// Bytes of a snapshot whose numbers were checked, or are the sequence's own: none of the sums can wrap, because the
// states of the session hold as many rows and more.
uint64_t Sequence::bytes_of(const SequenceHeader& header) const {
  uint64_t bytes = SequenceHeader::kBytes + plan_->states.size() * SequenceHeader::kStateBytes +
                   (uint64_t{header.n_input} + header.n_history) * sizeof(int32_t) +
                   (header.has_logits != 0 ? uint64_t{n_vocab()} * sizeof(float) : 0);
  for (const StateInfo& state : plan_->states)
    bytes += (header.n_run - first_kept_row(state, header.n_run)) * state_row_bytes(state, options_.shape.kv_type);
  return bytes;
}

SequenceHeader Sequence::make_header() const {
  SequenceHeader header;
  header.arithmetic = placed_arithmetic(parts());
  header.kv_type = static_cast<uint32_t>(options_.shape.kv_type);
  header.n_vocab = n_vocab();
  header.n_states = static_cast<uint32_t>(plan_->states.size());
  header.n_input = n_input_;
  header.n_history = n_history_;
  header.n_run = n_run_;
  header.has_logits = has_logits_ ? 1 : 0;
  header.n_dropped = n_dropped_;
  return header;
}

uint64_t Sequence::snapshot_bytes() const { return bytes_of(make_header()); }

// visit(part, state, position, row): every row of a snapshot, whose rows begin at `at`; returns what follows them.
template <class Byte, class Visit>
Result<Byte*> Sequence::visit_rows(uint32_t n_run, Byte* at, Visit visit) const {
  for (uint16_t id = 0; id < plan_->states.size(); ++id) {
    const StateInfo& info = plan_->states[id];
    const auto bytes = static_cast<size_t>(state_row_bytes(info, options_.shape.kv_type));
    State state;
    state.id = id;
    size_t part = 0;
    while (part < parts().size() && !parts()[part].part.owns(state)) ++part;
    if (part == parts().size())
      return Status::error(Code::backend_failed, "nobody keeps the state of layer {}", info.layer);
    for (uint32_t position = first_kept_row(info, n_run); position < n_run; ++position, at += bytes)
      MOTE_RETURN_IF_ERROR(visit(part, state, position, std::span<Byte>(at, bytes)));
  }
  return at;
}

Status Sequence::write_as_is(std::span<uint8_t> to, const Backend** failed) const {
  uint8_t* at = to.data();
  make_header().write(at);
  at += SequenceHeader::kBytes;
  for (const StateInfo& state : plan_->states) write_state(state, at), at += SequenceHeader::kStateBytes;
  for (const std::span<const int32_t> tokens : {std::span<const int32_t>(input_.first(n_input_)), history()})
    for (const int32_t token : tokens) store_le(at, token), at += sizeof token;
  MOTE_ASSIGN_OR_RETURN(uint8_t* rows_end,
                        visit_rows(n_run_, at, [&](size_t part, State state, uint32_t position, auto row) {
                          *failed = parts()[part].backend;
                          return execution_.executors()[part]->export_row(state, position, row);
                        }));
  if (has_logits_) std::memcpy(rows_end, logits().data(), logits().size_bytes());
  return {};
}

// Where a backend fails, the next ones run what it had run, and it is their snapshot: of the same size. A cancel waits
// meanwhile, as it does for every snapshot.
Status Sequence::write_snapshot(std::span<uint8_t> to) {
  for (;;) {
    const uint32_t n_run = n_run_;
    const bool with_logits = has_logits_;
    const Backend* failed = nullptr;
    Status status = write_as_is(to, &failed);
    if (status.ok() || !fall_back(status, failed, Fallback::Moment::running, n_input_ + n_run)) return status;
    bool cancelled = take_cancel();
    while ((status = run_again(n_run, with_logits)).code() == Code::cancelled) cancelled = true;
    if (cancelled) cancel_.store(1, std::memory_order_relaxed);
    MOTE_RETURN_IF_ERROR(status);
  }
}

Status Sequence::check_numbers(const SequenceHeader& header) const {
  const PlacedArithmetic own = placed_arithmetic(parts());
  if (std::memcmp(header.arithmetic.names, own.names, sizeof own.names) != 0) {
    size_t length = 0;
    while (length < sizeof own.names && header.arithmetic.names[length] != 0) ++length;
    return Status::error(Code::unsupported, "the snapshot was made with the arithmetic {}, this session runs {}",
                         std::string_view(header.arithmetic.names, length), own.names);
  }
  if (header.arithmetic.places != own.places) {   // which covers whole names too
    const bool cut = own.names[sizeof own.names - 2] != 0;
    return Status::error(
        Code::unsupported,
        cut ? "the snapshot was made with an arithmetic that begins with {} too, but is another or ran other steps"
            : "the snapshot was made with the arithmetic {} too, but with other steps on other backends",
        own.names);
  }
  if (header.kv_type != static_cast<uint32_t>(options_.shape.kv_type))
    return Status::error(Code::unsupported, "the snapshot's keys and values are {}, this session's {}",
                         kv_name(header.kv_type), kv_name(static_cast<uint32_t>(options_.shape.kv_type)));
  if (header.n_vocab != n_vocab() || header.n_states != plan_->states.size())
    return Status::error(Code::invalid_argument,
                         "the snapshot is of {} layers' states and a vocabulary of {}, the model has {} and {}",
                         header.n_states, header.n_vocab, plan_->states.size(), n_vocab());
  const uint64_t room = uint64_t{options_.shape.context} + (options_.slide ? 1 : 0);
  if (header.n_history > room || header.n_run > options_.shape.context)
    return Status::error(Code::context_full, "the snapshot's {} tokens do not fit in a context of {}", header.n_history,
                         options_.shape.context);
  const bool has_logits = header.has_logits == 1 && header.n_run == header.n_history && header.n_run != 0;
  if (header.n_run > header.n_history || (header.has_logits != 0 && !has_logits) || header.n_dropped >> 62 != 0)
    return Status::error(Code::invalid_argument,
                         "the snapshot contradicts itself: {} tokens, {} run, logits {}, {} dropped", header.n_history,
                         header.n_run, header.has_logits, header.n_dropped);
  if (header.n_input > input_.size())
    return Status::error(Code::context_full,
                         "the snapshot's input of {} tokens is more than the {} that this session encodes at once",
                         header.n_input, input_.size());
  const bool may_decode = plan_->decodes() && (!plan_->encodes() || header.n_input != 0);
  if (header.n_history != 0 && !may_decode)
    return Status::error(Code::invalid_argument,
                         "the snapshot contradicts itself: {} tokens behind an input of {}, which this model does not "
                         "run",
                         header.n_history, header.n_input);
  return {};
}

Status Sequence::check_restored_tokens(const uint8_t* from, uint32_t count, const char* kind) const {
  for (uint32_t i = 0; i < count; ++i) {
    const auto token = load_le<int32_t>(from + 4 * size_t{i});
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab())
      return Status::error(Code::invalid_argument, "the snapshot's {} {} at index {} is outside the vocabulary of {}",
                           kind, token, i, n_vocab());
  }
  return {};
}

Status Sequence::check_snapshot(std::span<const uint8_t> from) const {
  if (from.size() < SequenceHeader::kBytes)
    return Status::error(Code::invalid_argument, "the snapshot ends within its header");
  const SequenceHeader header = SequenceHeader::read(from.data());
  MOTE_RETURN_IF_ERROR(check_numbers(header));
  if (load_le<uint32_t>(from.data() + 116) != 0)
    return Status::error(Code::invalid_argument, "a field of the snapshot that must be 0 is not");
  const uint64_t bytes = bytes_of(header);
  if (from.size() != bytes)
    return Status::error(Code::invalid_argument, "the snapshot's {} tokens and their states take {} bytes, it has {}",
                         header.n_history, bytes, from.size());
  const uint8_t* at = from.data() + SequenceHeader::kBytes;
  for (const StateInfo& state : plan_->states) {
    uint8_t expected[SequenceHeader::kStateBytes];
    write_state(state, expected);
    if (std::memcmp(at, expected, sizeof expected) != 0)
      return Status::error(Code::invalid_argument, "the snapshot's state of layer {} has another shape", state.layer);
    at += sizeof expected;
  }
  MOTE_RETURN_IF_ERROR(check_restored_tokens(at, header.n_input, "input token"));
  return check_restored_tokens(at + sizeof(int32_t) * size_t{header.n_input}, header.n_history, "token");
}

// What was run before a backend was lost with its rows, an encoder's input first. What does not get to its end is
// pending.
Status Sequence::run_again(uint32_t n_run, bool with_logits) {
  MOTE_RETURN_IF_ERROR(run_batch(0, {}));
  return run_until(n_run, with_logits ? Logits::of_last : Logits::none);
}

// The next call runs what does not get to its end, or is the one that is cancelled.
void Sequence::run_restored(uint32_t n_run, bool with_logits) {
  if (run_again(n_run, with_logits).code() == Code::cancelled) cancel_.store(1, std::memory_order_relaxed);
}

Status Sequence::restore(std::span<const uint8_t> from) {
  const SequenceHeader header = SequenceHeader::read(from.data());
  const uint8_t* const tokens =
      from.data() + SequenceHeader::kBytes + plan_->states.size() * SequenceHeader::kStateBytes;
  const size_t n_tokens = size_t{header.n_input} + header.n_history;
  const uint8_t* const rows = tokens + n_tokens * sizeof(int32_t);
  forget_states();
  const Backend* failed = nullptr;
  const auto import_row = [this, &failed](size_t part, State state, uint32_t position, auto row) {
    if (take_cancel()) return Status::error(Code::cancelled, "cancelled while restoring position {}", position);
    const Status status = execution_.executors()[part]->import_row(state, position, row);
    if (!status.ok()) failed = parts()[part].backend;
    return status;
  };
  const Result<const uint8_t*> rows_end = visit_rows(header.n_run, rows, import_row);
  if (!rows_end.ok() &&
      !fall_back(rows_end.status(), failed, Fallback::Moment::running, header.n_input + header.n_run)) {
    forget_states();
    return rows_end.status();
  }
  for (size_t i = 0; i < n_tokens; ++i)
    (i < header.n_input ? input_[i] : history_[i - header.n_input]) = load_le<int32_t>(tokens + 4 * i);
  n_input_ = header.n_input;
  is_encoded_ = false;
  n_history_ = header.n_history;
  n_dropped_ = header.n_dropped;
  if (!rows_end.ok()) {
    run_restored(header.n_run, header.has_logits != 0);
    return {};
  }
  n_run_ = header.n_run;
  for (const StateInfo& state : plan_->states)
    if (state.phase == Phase::decode && first_kept_row(state, n_run_) != 0) no_return_below_ = n_run_;
  const uint32_t n_fallbacks = fallback_.count();
  if (n_input_ != 0) run_restored(header.n_run, false);
  if (n_fallbacks != fallback_.count() ||
      (n_input_ != 0 && !is_encoded_)) {   // the logits are not those of who goes on
    make_last_pending();
    return {};
  }
  has_logits_ = header.has_logits != 0;
  if (has_logits_)
    std::memcpy(execution_.values().data(plan_->logits), rows_end.value(), size_t{n_vocab()} * sizeof(float));
  return {};
}

}   // namespace mote
