// The arithmetic of places and windows, without a device.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

#include "backends/vulkan/executor.h"
#include "backends/vulkan/live_values.h"
#include "tests/conformance/plan_maker.h"

namespace mote::test {
namespace {

TEST_CASE("Values that live at one time never share a byte, and a place that is free is used again",
          "[vulkan][layout]") {
  CaseRandom random(11);
  struct Value {
    uint16_t id;
    uint64_t bytes, last;
  };
  std::string wrong;
  uint64_t most_live = 0, peak = 0;
  LiveValues live;
  std::vector<Value> mine;
  for (uint16_t step = 0; step < 400; ++step) {
    const Value made = {step, 1 + random.below(3000), step + uint64_t{random.below(12)}};
    if (!live.add(made.id, made.bytes, made.last)) wrong += " full at " + std::to_string(step);
    mine.push_back(made);
    uint64_t now = 0;
    for (const Value& a : mine) {
      now += round_up(a.bytes, 256);
      const uint64_t at = live.offset_bytes(a.id);
      if (at % 256 != 0) wrong += " place " + std::to_string(at);
      for (const Value& b : mine)
        if (a.id != b.id && at < live.offset_bytes(b.id) + b.bytes && live.offset_bytes(b.id) < at + a.bytes)
          wrong += " " + std::to_string(a.id) + " and " + std::to_string(b.id);
    }
    most_live = std::max(most_live, now);
    live.release_up_to(step);
    std::erase_if(mine, [&](const Value& value) { return value.last <= step; });
    for (const Value& value : mine)
      if (!live.has(value.id)) wrong += " lost " + std::to_string(value.id);
    peak = live.peak_bytes();
  }
  CHECK(wrong == "");
  CHECK(peak >= most_live);
  CHECK(peak < 2 * most_live);
  for (uint16_t id = 1000; id < 1000 + LiveValues::kMost; ++id) static_cast<void>(live.add(id, 1, UINT64_MAX));
  CHECK_FALSE(live.add(2000, 1, UINT64_MAX));
}

TEST_CASE("Slabs hold whole pieces, and a piece that is larger than one has its own", "[vulkan][layout]") {
  constexpr uint64_t kSlab = SlabLayout::kSlabBytes;
  std::vector<Buffer> slabs(4);
  SlabLayout layout{std::span(slabs)};
  CHECK(layout.place(100).offset_bytes == 0);
  CHECK(layout.place(100).offset_bytes == 256);
  const Place second = layout.place(kSlab - 100);
  CHECK((second.slab == 1 && second.offset_bytes == 0));
  CHECK(layout.place(kSlab + 1).slab == 2);
  CHECK(layout.place(1).slab == 3);
  layout.finish();
  CHECK(layout.count() == 4);
  CHECK((slabs[0].bytes == 512 && slabs[1].bytes == kSlab && slabs[2].bytes == kSlab + 256 && slabs[3].bytes == 256));
  SlabLayout nothing{std::span<Buffer>()};
  nothing.finish();
  CHECK(nothing.count() == 0);
}

TEST_CASE("A matrix is cut into windows of whole rows", "[vulkan][layout]") {
  const auto layout_of = [](Format format, uint32_t rows, uint32_t columns, uint64_t bytes) {
    return matrix_layout({nullptr, rows, columns, format, "m"}, bytes);
  };
  const MatrixLayout cut = layout_of(Format::f32, 10, 100, 1300);   // three rows of 400 bytes
  CHECK((cut.windows == 4 && cut.rows_in_window == 3 && cut.first_row(3) == 9 && cut.window_rows(3) == 1));
  CHECK(cut.window_bytes(0) == 1200);
  CHECK(layout_of(Format::f32, 10, 100, 399).windows == 0);
  CHECK(layout_of(Format::f16, 1, 33, 4096).row_words == 17);
  CHECK(layout_of(Format::q8_0, 1, 96, 4096).row_words == 3 * 8 + 2);
  CHECK(layout_of(Format::q4_0, 1, 96, 4096).row_words == 3 * 4 + 2);
  CHECK(layout_of(Format::q4_k, 1, 256, 4096).row_words == 256);
}

TEST_CASE("A cache is a ring of whole blocks, its heads cut into windows", "[vulkan][layout]") {
  const SessionShape shape{16, 1, 1000, KvType::f16};
  const KvLayout whole = kv_layout({0, 3, 64, 64, 0}, shape, 1 << 20);
  CHECK((whole.capacity == 1024 && whole.key_words == 32 && whole.windows == 1));
  CHECK(kv_layout({0, 3, 64, 64, 100}, shape, 1 << 20).capacity == 128);   // 99 + 16
  CHECK(kv_layout({0, 3, 64, 64, 4000}, shape, 1 << 20).capacity == 1024);
  const KvLayout cut = kv_layout({0, 3, 64, 7, 0}, shape, 2 * 1024 * 128);   // two heads of 128 KiB
  CHECK((cut.windows == 2 && cut.window_heads(0) == 2 && cut.window_heads(1) == 1 && cut.value_words == 4));
  CHECK(kv_layout({0, 3, 64, 64, 0}, shape, 1024 * 128 - 1).windows == 0);
}

TEST_CASE("The groups of a dispatch are the rows of its chunk that are there", "[vulkan][layout]") {
  const Grid grid{5, 64, 100, 8, false};
  CHECK(grid.groups(64, false) == 0);
  CHECK(grid.groups(65, false) == 1);
  CHECK(grid.groups(65, true) == 1);
  CHECK(grid.groups(80, true) == 2);
  CHECK(grid.groups(81, true) == 3);
  CHECK(grid.groups(1000, false) == 100);
}

// One step on inputs of the host, lowered as for a device whose bindings take so many bytes; nothing asks `supports`.
struct Wanted {
  const char* what;
  Op op;
  uint32_t rows, columns;
  uint64_t binding_bytes;
  uint32_t n_dispatches;   // 0: unsupported
};

Status lower_one(const Wanted& wanted, Lowered* lowered) {
  TestPlan test;
  const Value x = test.input(wanted.columns, {}), y = test.value(wanted.columns);
  Step& step = test.step(wanted.op, {x, x}, wanted.op == Op::append ? Value() : y);
  if (wanted.op == Op::append) step.state = test.state({0, 1, wanted.columns, wanted.columns, 0});
  if (wanted.op == Op::embed) step.matrix = {nullptr, wanted.rows, wanted.columns, Format::f32, "test.weight"};
  Plan plan;
  plan.steps = test.steps;
  plan.values = test.values;
  plan.states = test.states;
  const uint64_t places[] = {0, ValueMemory::kNowhere};
  const SessionShape shape{wanted.rows, wanted.rows, wanted.rows, KvType::f32};
  const DeviceLimits limits{wanted.binding_bytes, uint64_t{1} << 40, 16};
  return lower({{&plan, 0, 1}, shape, limits, ValueMemory(nullptr, places)}, nullptr, lowered);
}

TEST_CASE("What is larger than a shader may see is cut into groups that a device allows, or refused",
          "[vulkan][layout]") {
  constexpr uint64_t kAll = uint64_t{1} << 27;
  constexpr uint32_t kWidest = 65535 * 64;
  const Wanted all[] = {
      {"one copy and one step", Op::activate, 8, 64, kAll, 2},
      {"rows of as many groups as are allowed", Op::activate, 1, kWidest, kAll, 2},
      {"rows of more", Op::activate, 1, kWidest + 1, kAll, 0},
      {"as many rows as are allowed", Op::activate, 65535, 1, kAll, 2},
      {"more rows", Op::activate, 65536, 1, kAll, 4},
      {"chunks of 12 rows, not of 13", Op::activate, 26, 39, 2048, 6},
      {"a row that does not fit", Op::activate, 1, 65, 256, 0},
      {"rows that fit, but not where a binding may begin", Op::activate, 4, 64, 768, 0},
      {"a row of a matrix that does not fit", Op::embed, 1, 65, 256, 0},
      {"a head whose positions do not fit", Op::append, 4, 64, 64 * 64 * 4 - 1, 0},
      {"one whose positions do", Op::append, 4, 64, 64 * 64 * 4, 2},
      {"rows of which any may be wanted", Op::take_rows, 16, 64, 4096, 2},
      {"more than are seen at once", Op::take_rows, 17, 64, 4096, 0},
  };
  for (const Wanted& wanted : all) {
    INFO(wanted.what);
    Lowered counted;
    const Status status = lower_one(wanted, &counted);
    CHECK(status.ok() == (wanted.n_dispatches != 0));
    if (!status.ok()) {
      CHECK(status.code() == Code::unsupported);
      CHECK(!status.message().empty());
      continue;
    }
    CHECK(counted.n_dispatches == wanted.n_dispatches);
    std::vector<Grid> grids(counted.n_dispatches);
    Lowered tables;
    tables.grids = grids;
    REQUIRE(lower_one(wanted, &tables).ok());
    for (const Grid& grid : grids) CHECK((grid.x <= kMostGroups && grid.groups(wanted.rows, false) <= kMostGroups));
  }
}

TEST_CASE("A step that reads what is gone is refused", "[vulkan][layout]") {
  TestPlan test;
  const Value x = test.input(4, {}), a = test.value(4), b = test.value(4), c = test.value(4);
  for (const auto& [from, to] : {std::pair(x, a), std::pair(a, b), std::pair(a, c)})
    test.step(Op::activate, {from}, to);
  Plan plan;
  plan.steps = test.steps;
  plan.values = test.values;
  const uint64_t everywhere[] = {0, 64, 128, 192}, nowhere[] = {UINT64_MAX, 64, 128, 192};
  const auto code = [&](std::span<const uint64_t> places) {
    const SessionShape shape{1, 1, 1, KvType::f32};
    const DeviceLimits limits{1 << 20, 1 << 20, 16};
    Lowered counted;
    return lower({{&plan, 0, 3}, shape, limits, ValueMemory(nullptr, places)}, nullptr, &counted).code();
  };
  CHECK(code(everywhere) == Code::ok);
  CHECK(code(nowhere) == Code::unsupported);   // an input that has no place
  test.values[a.id].last_step = 1;
  CHECK(code(everywhere) == Code::unsupported);   // made here, and let go before the last step
}

TEST_CASE("A device that was lost says so and is not used again", "[vulkan][layout]") {
  VulkanDevice device;
  CHECK(device.usable().ok());
  CHECK(device.outcome("vkQueueSubmit", VK_SUCCESS).ok());
  CHECK(device.outcome("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY).message() ==
        "vulkan: vkAllocateMemory gave VK_ERROR_OUT_OF_DEVICE_MEMORY");
  CHECK(device.usable().ok());
  const Status lost = device.outcome("vkWaitForFences", VK_ERROR_DEVICE_LOST);
  CHECK((lost.code() == Code::backend_failed && lost.message() == "vulkan: vkWaitForFences gave VK_ERROR_DEVICE_LOST"));
  CHECK(device.usable().code() == Code::backend_failed);
  Buffer buffer;
  CHECK(device.make_buffer(256, MemoryKind::device, &buffer).code() == Code::backend_failed);
  CHECK(device.run(VK_NULL_HANDLE, VK_NULL_HANDLE).code() == Code::backend_failed);
}

}   // namespace
}   // namespace mote::test
