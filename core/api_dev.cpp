// mote_dev.h: tables, support and plans, for the command line, tests and benchmarks.
#include "core/handles.h"
#include "core/mote_dev.h"
#include "core/session.h"

namespace mote {
namespace {

// A step of an op with plain attributes, on a plan with one state: what the support matrix asks about.
struct Probe {
  Plan plan;
  StateInfo state{0, 2, 64, 64, 0};
  Step step{};

  Probe(Op op, Format format) {
    plan.states = {&state, 1};
    step.op = op;
    step.inputs[0] = {0, Dimension::tokens, Extent::single, 256};
    step.inputs[1] = {1, Dimension::tokens, Extent::single, 256};
    step.output = {2, Dimension::tokens, Extent::single, 256};
    if (uses_matrix(op)) step.matrix = {nullptr, 256, 256, format, "probe"};
    if (op_info(op).state != StateUse::none) step.state = {0};
    if (op == Op::rnn) state = {0, 1, 0, 256, 0};
    set_attributes(op);
  }
  static bool uses_matrix(Op op) {
    return op == Op::embed || op == Op::position_embed || op == Op::linear || op == Op::rnn;
  }

 private:
  void set_attributes(Op op) {
    switch (op) {
      case Op::rms_norm:
      case Op::layer_norm:
        step.vector = {nullptr, 256};
        step.attributes.norm = {1e-5f};
        break;
      case Op::rope_angles:
        step.attributes.rope_angles = {nullptr, 64, 1};
        break;
      case Op::rope:
        step.attributes.rope = {4, 64, 64, RopePairing::neighbours};
        break;
      case Op::attention:
      case Op::attention_weights:
        step.attributes.attention = {4, 0.125f, 0};
        break;
      case Op::activate:
      case Op::gate:
        step.attributes.activate = {Activation::silu};
        break;
      case Op::pool:
        step.phase = Phase::encode;
        step.attributes.pool = {Pooling::mean};
        break;
      case Op::scale:
      case Op::softcap:
        step.attributes.scale = {2};
        break;
      default:   // none, or zeros ask as well as anything
        break;
    }
  }
};

// The part that has this step, or null.
const PlacedPart* part_of(std::span<const PlacedPart> parts, uint32_t index) {
  for (const PlacedPart& part : parts)
    if (index >= part.part.first && index - part.part.first < part.part.count) return &part;
  return nullptr;
}

bool same(const char* a, std::string_view b) { return a != nullptr && b == a; }

}   // namespace
}   // namespace mote

extern "C" {

const char* mote_dev_backend_name(uint32_t index) {
  const auto table = mote::built_in_backends();
  return index < table.size() ? table[index].name : nullptr;
}

const char* mote_dev_engine_backend(const mote_engine* engine, uint32_t index) {
  return engine != nullptr && index < engine->backends.size() ? engine->backends[index]->name() : nullptr;
}

const char* mote_dev_op_name(uint32_t index) {
  return index < mote::kOpCount ? mote::op_info(static_cast<mote::Op>(index)).name.data() : nullptr;
}

const char* mote_dev_format_name(uint32_t index) {
  const auto table = mote::format_table();
  return index < table.size() ? table[index].name.data() : nullptr;
}

int32_t mote_dev_supports(const mote_engine* engine, const char* backend, const char* op, const char* format) {
  using namespace mote;
  if (engine == nullptr || backend == nullptr || op == nullptr) return 0;
  Format wanted = Format::f32;
  bool known = format == nullptr;
  for (size_t i = 0; i < format_table().size() && !known; ++i)
    if (same(format, format_table()[i].name)) wanted = static_cast<Format>(i), known = format_table()[i].enabled;
  if (!known) return 0;
  for (Backend* each : engine->backends) {
    if (!same(backend, each->name())) continue;
    for (uint32_t i = 0; i < kOpCount; ++i) {
      if (!same(op, op_info(static_cast<Op>(i)).name)) continue;
      const Probe probe(static_cast<Op>(i), wanted);
      return each->supports(probe.step, probe.plan) ? 1 : 0;
    }
  }
  return 0;
}

uint32_t mote_dev_step_count(const mote_model* model) {
  return model == nullptr ? 0 : static_cast<uint32_t>(model->plan.steps.size());
}

mote_status mote_dev_get_step(const mote_model* model, uint32_t index, mote_dev_step* step, mote_error* error) {
  using namespace mote;
  if (step == nullptr || index >= mote_dev_step_count(model))
    return report(Status::error(Code::invalid_argument, "step {} of {}", index, mote_dev_step_count(model)), error);
  const Step& found = model->plan.steps[index];
  describe_step(found, step->text, sizeof step->text);
  step->op = op_info(found.op).name.data();
  step->format = found.matrix.rows == 0 ? "" : format_info(found.matrix.format).name.data();
  step->backend = "";
  step->weight_error = 0;
  const PlacedPart* part = part_of(model->plans.current().parts, index);
  if (part == nullptr) return MOTE_OK;
  step->backend = part->backend->name();
  if (part->program != nullptr) step->weight_error = part->program->weight_error(index - part->part.first);
  return MOTE_OK;
}

const char* mote_dev_session_backend(const mote_session* session, uint32_t index) {
  const mote::SessionCall call(session);
  if (!call.status().ok()) return nullptr;
  const mote::PlacedPart* part = mote::part_of(session->sequence->parts(), index);
  return part == nullptr ? nullptr : part->backend->name();
}

uint32_t mote_dev_session_fallbacks(const mote_session* session) {
  const mote::SessionCall call(session);
  return call.status().ok() ? session->sequence->n_fallbacks() : 0;
}

uint32_t mote_dev_lane_tasks(const mote_engine* engine, uint64_t* tasks, uint32_t capacity) {
  if (engine == nullptr) return 0;
  const uint32_t lanes = engine->services.parallel.lanes;
  for (uint32_t lane = 0; lane < lanes && lane < capacity; ++lane)
    tasks[lane] = engine->pool == nullptr ? 0 : mote::thread_pool_tasks_done(engine->pool, lane);
  return lanes;
}

}   // extern "C"
