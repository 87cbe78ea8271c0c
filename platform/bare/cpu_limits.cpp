#include "platform/cpu_features.h"

namespace mote {

bool read_hwcap(uint64_t*, uint64_t*) { return false; }
CpuLimits probe_cpu_limits() { return {1, 0, 0}; }
uint32_t read_cgroup_quota(const char*) { return 0; }
uint32_t read_performance_cores(const char*, const CpuSet&) { return 0; }

}   // namespace mote
