// Replays in an order that cannot be meant: of graphs that share a pool, and beside the host's
// accesses of memory that they use.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ember/graphs/graph.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda::detail {

struct PoolBook;
class ReplayWatch;

/// One graph among those whose replays are looked at, from the end of its capture to its reset.
///
/// Note [The order of replays]
/// Captures that share a pool use each other's freed memory. So their replays come in the order of
/// the captures, again and again from the first one on, some left out; and each is ordered after
/// the one before it by streams, events or waits. The first is a comparison of numbers. For the
/// second an observer keeps what orders what, as the stream sanitizer does, but of replays as a
/// whole: it is told of events and waits, and not of the work that a replay holds. It also sees
/// whether the host touches page-locked memory that a replay in flight uses. It is there only while
/// two graphs share a pool, or one uses page-locked memory.
///
/// A replay on the stream of the pool's last one comes after all that this came after, so it is not
/// told, but only noted: that costs a lock. What comes later on its stream, an event or a wait,
/// stands for it.
class ReplayMember {
 public:
  /// `end_event`: that replays record last (CaptureLog::end_event). `host`: accesses of page-locked
  /// memory, without shapes. May wait for a thread that is being told something.
  /// `any_order`: whoever replays it has taken what others computed in the pool, and so it has no
  /// turn. `device`: the graph's. The memory of one pool on two devices has nothing in common.
  ReplayMember(const MemPoolId& pool, int device, GraphCheck level, const void* end_event,
               std::vector<Access> host, bool any_order);
  ~ReplayMember();
  ReplayMember(const ReplayMember&) = delete;
  ReplayMember& operator=(const ReplayMember&) = delete;

  /// Before a replay: whether its turn has come in its pool. True if observers need not be told of
  /// the replay: it was noted here.
  bool begin_replay(const Stream& on) const;
  /// Warns of what was found since the last call.
  static void tell_found();

 private:
  friend class ReplayWatch;

  const MemPoolId pool_;
  const int device_;
  const GraphCheck level_;
  const void* const end_event_;
  const std::vector<Access> host_;
  const bool any_order_;
  const std::uint64_t stack_;  ///< where the capture ended
  std::uint64_t number_ = 0;   ///< among the captures of the pool, from 1
  std::shared_ptr<PoolBook> book_;
};

}  // namespace ember::inline v0::cuda::detail
