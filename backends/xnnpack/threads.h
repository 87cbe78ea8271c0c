// XNNPACK's view of mote's threads. XNNPACK asks for work in parallel through the functions of pthreadpool; the backend
// brings them itself (threads.cpp), so there is one pool of threads, whoever runs.
#pragma once
#include <pthreadpool.h>

#include "platform/parallel.h"

// pthreadpool.h leaves this type open. A null pool runs everything on the thread that asks.
struct pthreadpool {
  mote::Parallel parallel;
};

namespace mote {

// Whoever makes a pool asks here, so that the functions of threads.cpp are linked before XNNPACK, which wants them.
pthreadpool pool_on(const Parallel& parallel);

}   // namespace mote
