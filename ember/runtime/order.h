// Order between streams without events of one's own.
#pragma once

#include "ember/runtime/event.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

/// An event of the calling thread that stands for all work the stream holds. The next call for a
/// stream of the same device makes it stand for something else; waits that are enqueued keep what
/// they wait for. Does not block, and makes an event only at the thread's first call for a device.
const Event& mark(const Stream& stream);

/// Later work of `later` waits for what `earlier` holds now: later.wait_stream(earlier) without
/// making an event. Nothing for a stream and itself. Does not block.
inline void order(const Stream& earlier, const Stream& later) {
  if (!(earlier == later)) mark(earlier).wait(later);
}

}  // namespace ember::inline v0::cuda
