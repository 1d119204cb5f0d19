// How the cell of a simulated device's event between processes is laid out, and the rules of it.
#pragma once

#include <cstdint>

#include "ember/driver/driver.h"

namespace ember::inline v0::ipc {

/// Word 0: up to which record the work is done; what streams wait for. Word 1: how many records
/// were asked for. The others: which processes asked for the last six. A record waits for the one
/// before it, so that who waits for that does not pass early.
inline constexpr std::size_t kRecordedWord = 1;
inline constexpr std::size_t kFirstRecorder = 2;
inline constexpr std::size_t kRecorders = 6;

/// If a process asked for a record and ended before it was done: nobody will do it, and who waits
/// is told. For the survivors, once a process has ended.
void end_lost_record(driver::Word* cell) noexcept;

}  // namespace ember::inline v0::ipc
