#include "tests/memory/shapes.h"

namespace mote::test {
namespace {

const mote_sampler kChain[] = {{MOTE_SAMPLER_LOGIT_BIAS, 0, 0, 0},    {MOTE_SAMPLER_REPETITION_PENALTY, 8, 1.1, 0},
                               {MOTE_SAMPLER_TEMPERATURE, 0, 0.9, 0}, {MOTE_SAMPLER_TOP_K, 40, 0, 0},
                               {MOTE_SAMPLER_TOP_P, 0, 0.95, 0},      {MOTE_SAMPLER_MIN_P, 0, 0.01, 0}};
const mote_logit_bias kBiases[] = {{1, 2.5f}, {2, -1.0f}, {3, 0.25f}};
const char* const kStops[] = {"\n\n", "the end", "<|im_end|>"};

}   // namespace

std::vector<Shape> session_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](const char* name, uint32_t context, uint32_t batch) -> mote_session_options& {
    shapes.push_back({name, session_options(context, batch)});
    return shapes.back().options;
  };
  add("defaults", 0, 0);
  add("one position", 1, 1);
  add("odd context", 33, 7);
  add("one row", 64, 1);
  add("batch over context", 20, 512);
  add("long", 700, 65).kv_type = MOTE_KV_F32;
  add("f32 keys and values", 64, 16).kv_type = MOTE_KV_F32;
  mote_session_options& outputs = add("outputs for every row", 96, 24);
  outputs.max_output_rows = 24;
  add("more outputs than rows", 48, 8).max_output_rows = 100;
  mote_session_options& sliding = add("sliding", 40, 16);
  sliding.on_full = MOTE_ON_FULL_SLIDE;
  sliding.keep = 4;
  mote_session_options& sampling = add("chain, biases and stops", 64, 16);
  sampling.seed = 7;
  sampling.samplers = kChain;
  sampling.n_samplers = std::size(kChain);
  sampling.logit_bias = kBiases;
  sampling.n_logit_bias = std::size(kBiases);
  sampling.stops = kStops;
  sampling.n_stops = std::size(kStops);
  mote_session_options& one_stop = add("one stop", 64, 16);
  one_stop.stops = kStops;
  one_stop.n_stops = 1;
  return shapes;
}

}   // namespace mote::test
