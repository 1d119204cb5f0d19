#include "ember/ipc/event_cell.h"

#include "ember/driver/words.h"
#include "ember/ipc/process.h"

namespace ember::inline v0::ipc {

void end_lost_record(driver::Word* cell) noexcept {
  const std::uint64_t done = cell[0].load(std::memory_order_acquire);
  const std::uint64_t asked = cell[kRecordedWord].load(std::memory_order_acquire);
  if (done >= asked) return;
  std::uint64_t first = done + 1;
  if (asked - first >= kRecorders) first = asked - kRecorders + 1;
  for (std::uint64_t record = first; record <= asked; ++record) {
    const std::uint64_t who = cell[kFirstRecorder + record % kRecorders].load();
    const auto id = static_cast<std::int32_t>(who & UINT32_MAX);
    if (id == 0 || (start_of(id) & UINT32_MAX) == who >> 32) continue;
    driver::raise_word(cell[0], driver::kWordLost);
    return;
  }
}

}  // namespace ember::inline v0::ipc
