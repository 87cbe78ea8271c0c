// The order in which kernels for few rows of x read weight rows, whatever the instruction set. Nothing is computed
// twice meanwhile, so memory is what they wait for. Internal linkage throughout: see kernel_base.h.
#pragma once
#include "backends/cpu/kernel_base.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

constexpr uint32_t kRowsAtATime = 16;   // weight rows
constexpr uint32_t kFetchAhead = 480;   // bytes by which weights are fetched into L2 before they are read

// Weight rows as few rows of x meet them: batch after batch, of the rows row + place[0..15] for row = first,
// first + step, ... below end. The last batch may have fewer, if those are in order.
struct RowBatches {
  uint32_t first, end, step;   // kRowsAtATime / step is the number of streams
  uint32_t place[kRowsAtATime];
  size_t offset[kRowsAtATime];   // place in bytes

  MOTE_INLINE uint32_t rows_at(uint32_t row) const {
    return step < kRowsAtATime || end - row >= kRowsAtATime ? kRowsAtATime : end - row;
  }
  // act(numbers, count) for up to `together` rows at a time, in the same order.
  template <class Act>
  MOTE_INLINE void visit(uint32_t together, Act act) const {
    for (uint32_t row = first; row < end; row += step) {
      const uint32_t rows = rows_at(row);
      uint32_t number[kRowsAtATime];
      for (uint32_t r = 0; r < rows; ++r) number[r] = row + place[r];
      for (uint32_t r = 0; r < rows; r += together) act(number + r, rows - r < together ? rows - r : together);
    }
  }
};

// Rows [first, end) in order.
inline RowBatches rows_in_order(const LinearJob& job, uint32_t first, uint32_t end) {
  RowBatches batches = {first, end, kRowsAtATime, {}, {}};
  for (uint32_t r = 0; r < kRowsAtATime; ++r) {
    batches.place[r] = r;
    batches.offset[r] = r * job.weight_row_bytes;
  }
  return batches;
}
// `count` rows of each of `streams` streams, which begin `apart` rows from each other, row by row in turns;
// kRowsAtATime / streams divides count.
inline RowBatches rows_of_streams(const LinearJob& job, uint32_t first, uint32_t count, uint32_t apart,
                                  uint32_t streams) {
  RowBatches batches = {first, first + count, kRowsAtATime / streams, {}, {}};
  for (uint32_t r = 0; r < kRowsAtATime; ++r) {
    batches.place[r] = r % streams * apart + r / streams;
    batches.offset[r] = batches.place[r] * job.weight_row_bytes;
  }
  return batches;
}

// Streams that begin so many bytes apart lie at different places of their pages; at the same ones they would push each
// other out of the level-1 cache.
constexpr bool differ_in_page(size_t bytes, uint32_t streams) {
  for (uint32_t i = 1; i < streams; ++i)
    if (i * bytes % 4096 < 512 || i * bytes % 4096 > 4096 - 512) return false;
  return true;
}

// Calls visit for the rows of a job. A large job is read in several places at once: memory gives more to four streams
// than to one. `x_bytes`: what the kernel reads of x again for each weight row. The more of it, the fewer streams have
// room beside it in the level-1 cache; where not even two have, the processor's prefetchers lose them. Four are for
// rows that leave a page soon. 10 KB: 8192 columns of x for blocks of 32.
template <class Visit>
MOTE_INLINE void visit_rows(const LinearJob& job, size_t x_bytes, Visit visit) {
  constexpr size_t kWorthStreams = 4 * 48 * 1024, kLongestOfFour = 3072, kMostBesideFour = 4096, kMostBesideTwo = 10240;
  const uint32_t rows = job.end_row - job.first_row;
  uint32_t first = job.first_row;
  if (x_bytes <= kMostBesideTwo && rows >= 4 * kRowsAtATime && rows * job.weight_row_bytes >= kWorthStreams) {
    const uint32_t streams = job.weight_row_bytes <= kLongestOfFour && x_bytes <= kMostBesideFour ? 4 : 2;
    const uint32_t step = kRowsAtATime / streams, most = rows / streams, count = most / step * step - step;
    uint32_t apart = most;
    while (apart > count && !differ_in_page(apart * job.weight_row_bytes, streams)) --apart;
    visit(rows_of_streams(job, first, count, apart, streams));
    for (uint32_t stream = 0; stream + 1 < streams && apart != count; ++stream) {   // what lies between them
      const uint32_t from = first + stream * apart;
      visit(rows_in_order(job, from + count, from + apart));
    }
    first += (streams - 1) * apart + count;
  }
  if (first < job.end_row) visit(rows_in_order(job, first, job.end_row));
}

}   // namespace
}   // namespace mote
