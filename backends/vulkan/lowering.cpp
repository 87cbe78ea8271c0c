#include "backends/vulkan/lowering.h"

#include <algorithm>

#include "backends/vulkan/live_values.h"

namespace mote {
namespace {

uint32_t groups_for(uint64_t columns) { return static_cast<uint32_t>((columns + MOTE_VK_GROUP - 1) / MOTE_VK_GROUP); }

Kernel for_format(Kernel f32, DeviceFormat format) {   // the formats' kernels follow each other in variants.inc
  return static_cast<Kernel>(static_cast<uint8_t>(f32) + static_cast<uint8_t>(format));
}
constexpr bool has_number(Kernel kernel, Kernel f32, int format) {
  return static_cast<int>(kernel) - static_cast<int>(f32) == format;
}
#define MOTE_VK_FORMATS_FOLLOW(op)                                               \
  static_assert(has_number(Kernel::op##_f16, Kernel::op##_f32, MOTE_VK_F16) &&   \
                has_number(Kernel::op##_q8_0, Kernel::op##_f32, MOTE_VK_Q8_0) && \
                has_number(Kernel::op##_q4_0, Kernel::op##_f32, MOTE_VK_Q4_0))
MOTE_VK_FORMATS_FOLLOW(embed);
MOTE_VK_FORMATS_FOLLOW(position_embed);
MOTE_VK_FORMATS_FOLLOW(linear);
MOTE_VK_FORMATS_FOLLOW(linear_rows);
#undef MOTE_VK_FORMATS_FOLLOW

constexpr bool has_number(Activation function, int number) { return static_cast<int>(function) == number; }
static_assert(has_number(Activation::relu, MOTE_VK_RELU) && has_number(Activation::silu, MOTE_VK_SILU) &&
              has_number(Activation::gelu_tanh, MOTE_VK_GELU_TANH) &&
              has_number(Activation::gelu_erf, MOTE_VK_GELU_ERF) && MOTE_VK_ACTIVATIONS == MOTE_VK_GELU_ERF + 1);

class Lowering {
 public:
  Lowering(const LoweringInput& input, DispatchSink* sink, Lowered* lowered)
      : input_(input), plan_(*input.part.plan), limits_(input.limits), sink_(sink), out_(*lowered) {}

  Status run() {
    header_ = take_exchange(sizeof(BatchHeader));
    tokens_ = take_exchange(uint64_t{input_.shape.max_batch} * 4);
    output_rows_ = take_exchange(uint64_t{input_.shape.max_outputs} * 4);
    out_.tokens_offset_bytes = tokens_.offset_bytes;
    out_.output_rows_offset_bytes = output_rows_.offset_bytes;
    for (step_index_ = 0; step_index_ < input_.part.count; ++step_index_) {
      const Step& step = input_.part.steps()[step_index_];
      if (step.layer != layer_ && in_submission_ != 0) MOTE_RETURN_IF_ERROR(end_submission());
      layer_ = step.layer;
      MOTE_RETURN_IF_ERROR(lower_step(step));
    }
    if (in_submission_ != 0) MOTE_RETURN_IF_ERROR(end_submission());
    out_.grids_offset_bytes =
        take_exchange(uint64_t{out_.n_dispatches} * sizeof(VkDispatchIndirectCommand)).offset_bytes;
    out_.exchange_bytes = exchange_bytes_;
    out_.values_bytes = live_.peak_bytes();
    return {};
  }

 private:
  // ---------------------------------------------------------------- places

  Binding take_exchange(uint64_t bytes) {
    const Binding made = {input_.exchange, exchange_bytes_, bytes};
    exchange_bytes_ += round_up(bytes, VulkanDevice::kPlaceBytes);
    return made;
  }
  uint32_t most_rows(Dimension rows) const {
    return rows == Dimension::tokens ? input_.shape.max_batch : input_.shape.max_outputs;
  }
  uint64_t bytes_of(Value value) const { return uint64_t{most_rows(value.rows)} * value.columns * 4; }
  uint32_t global_index() const { return input_.part.first + step_index_; }
  bool made_here(Value value) const {
    const uint32_t made = plan_.values[value.id].first_step - input_.part.first;
    return made < input_.part.count && input_.part.steps()[made].output.id == value.id;
  }

  Status make_live(Value value) {
    const uint64_t last = plan_.values[value.id].last_step;
    if (live_.add(value.id, bytes_of(value), last)) return {};
    return Status::error(Code::unsupported, "the plan keeps more than {} Values alive on the device",
                         LiveValues::kMost);
  }

  // A Value of `columns` whose rows are cut as chunk() says.
  struct Chunk {
    Grid grid;
    uint32_t base = 0, rows = 0;
  };
  Binding rows_of(Value value, const Chunk& chunk) const {
    const uint64_t row = uint64_t{value.columns} * 4;
    return {input_.values, live_.offset_bytes(value.id) + chunk.base * row, chunk.rows * row};
  }
  static Binding rows_in(const Binding& exchange, Value value, const Chunk& chunk) {
    const uint64_t row = uint64_t{value.columns} * 4;
    return {exchange.buffer, exchange.offset_bytes + chunk.base * row, chunk.rows * row};
  }

  // body(Chunk) for pieces of the rows of a Value, small enough that rows of `most_columns` values fit in a binding.
  template <class Body>
  Status for_chunks(Dimension rows_kind, uint32_t most_columns, uint32_t groups_x, Body body) {
    const uint32_t rows = most_rows(rows_kind);
    uint64_t fit = std::min<uint64_t>(limits_.binding_bytes / (uint64_t{most_columns} * 4), kMostGroups);
    if (fit < rows) fit &= ~uint64_t{limits_.alignment_bytes / 4 - 1};   // the next chunk begins where a binding may
    if (fit == 0 || groups_x > kMostGroups)
      return Status::error(Code::unsupported, "rows of {} values are more than a shader of this device may see",
                           most_columns);
    for (uint32_t base = 0; base < rows;) {
      Chunk chunk;
      chunk.base = base;
      chunk.rows = static_cast<uint32_t>(std::min<uint64_t>(fit, rows - base));
      chunk.grid = {groups_x, base, chunk.rows, 1, rows_kind == Dimension::outputs};
      MOTE_RETURN_IF_ERROR(body(chunk));
      base += chunk.rows;
    }
    return {};
  }

  // ---------------------------------------------------------------- handing out

  Dispatch start(Kernel kernel, const Grid& grid) const {
    Dispatch dispatch;
    dispatch.one = dispatch.many = kernel;
    dispatch.grid = grid;
    return dispatch;
  }
  Status emit(const Dispatch& dispatch) {
    if (out_.n_dispatches < out_.grids.size()) out_.grids[out_.n_dispatches] = dispatch.grid;
    ++out_.n_dispatches;
    ++in_submission_;
    return sink_ == nullptr ? Status() : sink_->take(dispatch);
  }
  Status end_submission() {
    ++out_.n_submissions;
    in_submission_ = 0;
    return sink_ == nullptr ? Status() : sink_->end_submission();
  }
  template <class Entry>
  static void note(std::span<Entry> table, uint32_t& count, const Entry& entry) {
    if (count < table.size()) table[count] = entry;
    ++count;
  }

  // Between the exchange and the device.
  Status copy(Value value, const Binding& exchange, bool to_device) {
    return for_chunks(value.rows, value.columns, groups_for(value.columns), [&](const Chunk& chunk) {
      const Binding host = rows_in(exchange, value, chunk), device = rows_of(value, chunk);
      return emit(start(Kernel::copy, chunk.grid)
                      .bind(to_device ? host : device)
                      .bind(to_device ? device : host)
                      .word(value.columns));
    });
  }

  Status lower_step(const Step& step) {
    for (uint32_t i = 0; i < op_info(step.op).n_inputs; ++i) {
      const Value input = step.inputs[i];
      if (live_.has(input.id)) continue;
      if (made_here(input) || !input_.values_of_host.placed(input))
        return Status::error(Code::unsupported, "vulkan: step {} reads a Value that is gone", global_index());
      MOTE_RETURN_IF_ERROR(make_live(input));
      const Binding exchange = take_exchange(bytes_of(input));
      note(out_.uploads, out_.n_uploads, Transfer{input, exchange.offset_bytes});
      MOTE_RETURN_IF_ERROR(copy(input, exchange, true));
    }
    if (step.output.exists()) MOTE_RETURN_IF_ERROR(make_live(step.output));
    MOTE_RETURN_IF_ERROR(lower_op(step));
    if (step.output.exists() && input_.values_of_host.placed(step.output)) {
      const Binding exchange = take_exchange(bytes_of(step.output));
      note(out_.downloads, out_.n_downloads, Transfer{step.output, exchange.offset_bytes});
      MOTE_RETURN_IF_ERROR(copy(step.output, exchange, false));
    }
    live_.release_up_to(global_index());
    return {};
  }

  // ---------------------------------------------------------------- ops

  Status lower_op(const Step& step) {
    const Step::Attributes& attributes = step.attributes;
    switch (step.op) {
      case Op::embed:
      case Op::position_embed:
        return embed(step);
      case Op::rms_norm:
      case Op::layer_norm:
        return norm(step);
      case Op::linear:
        return linear(step);
      case Op::rope_angles:
        return rope_angles(step);
      case Op::rope:
        return rope(step);
      case Op::append:
        return append(step);
      case Op::attention:
        return attention(step);
      case Op::activate:
        return elementwise(step, Kernel::activate, static_cast<uint32_t>(attributes.activate.function));
      case Op::gate:
        return elementwise(step, Kernel::gate, static_cast<uint32_t>(attributes.activate.function));
      case Op::add:
        return elementwise(step, Kernel::add, 0);
      case Op::scale:
        return elementwise(step, Kernel::scale, __builtin_bit_cast(uint32_t, attributes.scale.factor));
      case Op::softcap:
        return elementwise(step, Kernel::softcap, __builtin_bit_cast(uint32_t, attributes.scale.factor));
      case Op::take_rows:
        return take_rows(step);
      default:   // one that came later
        break;
    }
    return Status::error(Code::unsupported, "vulkan does not run {}", op_info(step.op).name);
  }

  // body(MatrixLayout, window, its Binding)
  template <class Body>
  Status for_windows(const Step& step, Body body) {
    const MatrixLayout layout = matrix_layout(step.matrix, limits_.binding_bytes);
    if (layout.windows == 0)
      return Status::error(Code::unsupported, "the rows of {} are more than a shader of this device may see",
                           step.matrix.name);
    for (uint32_t window = 0; window < layout.windows; ++window) {
      const Binding binding = input_.program == nullptr ? Binding() : input_.program->window(step_index_, window);
      MOTE_RETURN_IF_ERROR(body(layout, window, binding));
    }
    return {};
  }
  Binding vector_of(bool is_bias) const {
    if (input_.program == nullptr) return {};
    const StepWeights& weights = input_.program->weights(step_index_);
    return is_bias ? weights.bias : weights.vector;
  }

  Status embed(const Step& step) {
    const bool by_position = step.op == Op::position_embed;
    const uint32_t columns = step.output.columns;
    return for_windows(step, [&](const MatrixLayout& layout, uint32_t window, const Binding& matrix) {
      return for_chunks(step.output.rows, columns, groups_for(columns), [&](const Chunk& chunk) {
        const Kernel kernel = by_position ? Kernel::position_embed_f32 : Kernel::embed_f32;
        Dispatch dispatch = start(for_format(kernel, layout.format), chunk.grid);
        dispatch.bind(matrix).bind(by_position ? rows_of(step.inputs[0], chunk) : tokens_);
        dispatch.bind(rows_of(step.output, chunk));
        if (by_position) dispatch.bind(header_);
        dispatch.word(columns).word(layout.row_words).word(layout.first_row(window)).word(layout.window_rows(window));
        return emit(dispatch.word(chunk.base));
      });
    });
  }

  Status linear(const Step& step) {
    const Value x = step.inputs[0], y = step.output;
    const bool has_bias = step.bias.exists();
    return for_windows(step, [&](const MatrixLayout& layout, uint32_t window, const Binding& matrix) {
      const uint32_t count = layout.window_rows(window);
      return for_chunks(y.rows, std::max(x.columns, y.columns), groups_for(count), [&](const Chunk& chunk) {
        Dispatch dispatch = start(for_format(Kernel::linear_f32, layout.format), chunk.grid);
        dispatch.many = for_format(Kernel::linear_rows_f32, layout.format);
        dispatch.grid.rows_in_group = MOTE_VK_LINEAR_ROWS;
        dispatch.bind(matrix).bind(rows_of(x, chunk));
        dispatch.bind(has_bias ? vector_of(true) : rows_of(x, chunk)).bind(header_).bind(rows_of(y, chunk));
        dispatch.word(x.columns).word(layout.row_words).word(layout.first_row(window)).word(count).word(y.columns);
        dispatch.word(chunk.grid.by_outputs ? 1 : 0).word(has_bias ? 1 : 0);
        return emit(dispatch.word(chunk.base).word(chunk.rows));
      });
    });
  }

  Status norm(const Step& step) {
    const bool is_layer_norm = step.op == Op::layer_norm, has_bias = step.bias.exists();
    const uint32_t columns = norm_width(step), groups = step.output.columns / columns;
    return for_chunks(step.output.rows, step.output.columns, groups, [&](const Chunk& chunk) {
      Dispatch dispatch = start(is_layer_norm ? Kernel::layer_norm : Kernel::rms_norm, chunk.grid);
      dispatch.bind(rows_of(step.inputs[0], chunk)).bind(vector_of(false));
      if (is_layer_norm) dispatch.bind(vector_of(has_bias));
      dispatch.bind(rows_of(step.output, chunk)).word(columns).number(step.attributes.norm.epsilon);
      return emit(dispatch.word(has_bias ? 1 : 0));
    });
  }

  // Made by the host, in double and rounded once, as for every backend.
  Status rope_angles(const Step& step) {
    const Binding exchange = take_exchange(bytes_of(step.output));
    note(out_.angles, out_.n_angles, AnglesRows{&step, exchange.offset_bytes});
    return copy(step.output, exchange, true);
  }

  Status rope(const Step& step) {
    const RopeAttributes& rope = step.attributes.rope;
    const uint32_t columns = step.output.columns;
    return for_chunks(step.output.rows, columns, groups_for(columns), [&](const Chunk& chunk) {
      Dispatch dispatch = start(Kernel::rope, chunk.grid);
      dispatch.bind(rows_of(step.inputs[0], chunk)).bind(rows_of(step.inputs[1], chunk));
      dispatch.bind(rows_of(step.output, chunk)).word(columns).word(rope.head_dim).word(rope.n_rotated);
      return emit(dispatch.word(rope.pairing == RopePairing::halves ? 1 : 0));
    });
  }

  // body(KvLayout, window, its keys, its values)
  template <class Body>
  Status for_cache(State state, Body body) {
    const StateInfo& info = plan_.states[state.id];
    const KvLayout layout = kv_layout(info, input_.shape, limits_.binding_bytes);
    if (layout.windows == 0)
      return Status::error(Code::unsupported,
                           "a context of {} makes a head of layer {} larger than a shader of this device may see",
                           input_.shape.context, info.layer);
    for (uint32_t window = 0; window < layout.windows; ++window) {
      const KvCache* cache = input_.caches.empty() ? nullptr : &input_.caches[state.id];
      MOTE_RETURN_IF_ERROR(body(layout, window, cache == nullptr ? Binding() : cache->keys[window],
                                cache == nullptr ? Binding() : cache->values[window]));
    }
    return {};
  }

  Status append(const Step& step) {
    const StateInfo& info = plan_.states[step.state.id];
    const Kernel kernel = input_.shape.kv_type == KvType::f16 ? Kernel::append_f16 : Kernel::append_f32;
    const uint32_t most_columns = std::max(step.inputs[0].columns, step.inputs[1].columns);
    return for_cache(
        step.state, [&](const KvLayout& layout, uint32_t window, const Binding& keys, const Binding& values) {
          const Binding has_nan = take_exchange(uint64_t{input_.shape.max_batch} * 4);
          note(out_.nan_rows, out_.n_nan_rows, NanRows{info.layer, has_nan.offset_bytes});
          return for_chunks(Dimension::tokens, most_columns, 1, [&](const Chunk& chunk) {
            Dispatch dispatch = start(kernel, chunk.grid);
            dispatch.bind(rows_of(step.inputs[0], chunk)).bind(rows_of(step.inputs[1], chunk));
            dispatch.bind(keys).bind(values).bind(has_nan).bind(header_);
            dispatch.word(info.n_kv_heads).word(layout.first_head(window)).word(layout.window_heads(window));
            dispatch.word(info.key_dim).word(info.value_dim).word(layout.capacity);
            return emit(dispatch.word(chunk.base));
          });
        });
  }

  Status attention(const Step& step) {
    const StateInfo& info = plan_.states[step.state.id];
    const AttentionAttributes& attributes = step.attributes.attention;
    const Value q = step.inputs[0], y = step.output;
    const uint32_t group = attributes.n_heads / info.n_kv_heads;
    const Kernel kernel = input_.shape.kv_type == KvType::f16 ? Kernel::attention_f16 : Kernel::attention_f32;
    return for_cache(
        step.state, [&](const KvLayout& layout, uint32_t window, const Binding& keys, const Binding& values) {
          const uint32_t heads = layout.window_heads(window) * group, first_head = layout.first_head(window) * group;
          return for_chunks(y.rows, std::max(q.columns, y.columns), heads, [&](const Chunk& chunk) {
            Dispatch dispatch = start(kernel, chunk.grid);
            dispatch.bind(rows_of(q, chunk)).bind(keys).bind(values).bind(header_).bind(rows_of(y, chunk));
            dispatch.word(attributes.n_heads).word(first_head).word(group).word(info.key_dim).word(info.value_dim);
            dispatch.word(layout.capacity).word(info.window).number(attributes.scale).number(attributes.softcap);
            return emit(dispatch.word(chunk.base));
          });
        });
  }

  // activate, gate, add, scale, softcap: one number of an attribute, or none.
  Status elementwise(const Step& step, Kernel kernel, uint32_t attribute) {
    const uint32_t columns = step.output.columns;
    return for_chunks(step.output.rows, columns, groups_for(columns), [&](const Chunk& chunk) {
      Dispatch dispatch = start(kernel, chunk.grid);
      for (uint32_t i = 0; i < op_info(step.op).n_inputs; ++i) dispatch.bind(rows_of(step.inputs[i], chunk));
      return emit(dispatch.bind(rows_of(step.output, chunk)).word(columns).word(attribute));
    });
  }

  // Any row of x may be wanted, so all of it must be in sight.
  Status take_rows(const Step& step) {
    const Value x = step.inputs[0];
    const uint32_t columns = step.output.columns;
    if (bytes_of(x) > limits_.binding_bytes)
      return Status::error(Code::unsupported, "a batch of {} rows of {} values is more than a shader may see",
                           input_.shape.max_batch, columns);
    return for_chunks(step.output.rows, columns, groups_for(columns), [&](const Chunk& chunk) {
      Dispatch dispatch = start(Kernel::take_rows, chunk.grid);
      dispatch.bind({input_.values, live_.offset_bytes(x.id), bytes_of(x)}).bind(output_rows_);
      return emit(dispatch.bind(rows_of(step.output, chunk)).word(columns).word(chunk.base));
    });
  }

  const LoweringInput& input_;
  const Plan& plan_;
  const DeviceLimits& limits_;
  DispatchSink* sink_;
  Lowered& out_;
  LiveValues live_;
  Binding header_, tokens_, output_rows_;
  uint64_t exchange_bytes_ = 0;
  uint32_t step_index_ = 0, in_submission_ = 0;
  uint16_t layer_ = Step::kNoLayer;
};

}   // namespace

Status lower(const LoweringInput& input, DispatchSink* sink, Lowered* lowered) {
  lowered->n_dispatches = lowered->n_submissions = lowered->n_uploads = 0;
  lowered->n_downloads = lowered->n_angles = lowered->n_nan_rows = 0;
  return Lowering(input, sink, lowered).run();
}

}   // namespace mote
