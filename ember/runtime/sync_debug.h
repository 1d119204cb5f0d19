// Waits of the host for devices: shown or refused while debugging (chapter 16 of the documents),
// and counted and bounded in tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// What a thread of the host waits for, and in which call. Every wait of the library is one of
/// these.
enum class WaitKind : std::uint8_t {
  copy,      ///< a copy between a device and the host that blocks; item(), nonzero() and others
  stream,    ///< Stream::synchronize(), also where an operation calls it
  event,     ///< Event::synchronize()
  device,    ///< synchronize(), reset_device(), sim::begin_run()
  pageable,  ///< copy_async() with host memory that is not pinned, which may wait
  launch,    ///< CUDA_LAUNCH_BLOCKING: a call waits for its own work
  memory,    ///< an allocator, or memory that goes back to a device
  library,   ///< other waits of the library's own, such as before plans of transforms go
};
inline constexpr std::size_t kWaitKinds = 8;

/// "copy", "stream" and so on.
EMBER_API const char* wait_kind_name(WaitKind kind) noexcept;
/// The kind of that name. ValueError for any other, naming those that there are.
EMBER_API WaitKind wait_kind(std::string_view name);

/// What happens before a wait that chapter 16 checks (WaitKind::copy and WaitKind::stream): 0 or
/// `default`: nothing; 1 or `warn`: a warning `called a synchronizing CUDA operation`; 2 or
/// `error`: that is thrown as Error, and nothing was enqueued. For the whole process. Warns itself,
/// as the documents ask. Error for another value. Thread-safe; needs no device and does not block.
EMBER_API void set_sync_debug_mode(int mode);
EMBER_API void set_sync_debug_mode(std::string_view mode);
/// The mode: 0, 1 or 2.
EMBER_API int get_sync_debug_mode() noexcept;

namespace detail {
struct Budget;
}

/// While it lives, at most so many waits of the calling thread: for tests of code that is not to
/// wait. A wait too many is an Error before it begins; where nothing can be thrown (memory that is
/// freed) it is made, and check() or the end of the budget says so. Budgets may lie within each
/// other: a wait counts for all. Other threads' waits do not count. Everything may be called from
/// any thread.
///
///     const cuda::WaitBudget budget(1);       // of any kind
///     train_step();
///     budget.check();
class EMBER_API WaitBudget {
 public:
  /// `kinds`: which waits count; none named: all of them. Waits of WaitKind::pageable are told from
  /// copies that do not wait only while a budget counts them, at the cost of two look-ups for each.
  explicit WaitBudget(std::uint64_t most, std::initializer_list<WaitKind> kinds = {});
  /// The same with the kinds as a set of bits, `1 << kind`; 0: all.
  WaitBudget(std::uint64_t most, std::uint32_t kinds);
  /// Warns if there were too many waits and neither an Error nor check() has said so.
  ~WaitBudget();
  WaitBudget(const WaitBudget&) = delete;
  WaitBudget& operator=(const WaitBudget&) = delete;

  /// How many waits it has counted; one that was refused counts.
  std::uint64_t used() const noexcept;
  /// The same of one kind.
  std::uint64_t used(WaitKind kind) const noexcept;
  /// Error if there were more than the budget allows: how many of which kinds.
  void check() const;

 private:
  std::shared_ptr<detail::Budget> budget_;
};

/// How often the calling thread has waited so far, by WaitKind. Those of WaitKind::pageable only
/// while a budget counted them.
EMBER_API std::array<std::uint64_t, kWaitKinds> host_waits() noexcept;

}  // namespace ember::inline v0::cuda
