// The sum of one number of every invocation of a work group, the same for all of them: halves are added to halves.
shared float folded[MOTE_VK_GROUP];

float fold(float part) {
  uint lane = gl_LocalInvocationID.x;
  barrier();   // who still reads an earlier sum
  folded[lane] = part;
  for (uint half_count = MOTE_VK_GROUP / 2u; half_count != 0u; half_count /= 2u) {
    barrier();
    if (lane < half_count) {
      precise float sum = folded[lane] + folded[lane + half_count];
      folded[lane] = sum;
    }
  }
  barrier();
  return folded[0];
}
