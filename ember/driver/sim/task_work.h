// What tasks do, whichever executor runs them.
#pragma once

#include "ember/base/status.h"
#include "ember/driver/sim/activity.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/stream.h"
#include "ember/driver/sim/task_queue.h"

namespace ember::inline v0::driver::sim {

/// Does the task's work, on the calling thread. Not for tasks that wait. `traffic`: what the memory
/// that a kernel asks for is added to, or null.
Status execute(Machine& machine, Stream& stream, const Task& task, WorkerActivity& activity,
               Traffic* traffic = nullptr);
/// The bytes from `from` up to `to` of a task that is a copy. As execute().
Status copy_part(Machine& machine, Stream& stream, const Task& task, std::size_t from,
                 std::size_t to);
/// The task's work has failed: a fault of its device, and whoever waits for the task is told.
void fail(Machine& machine, Stream& stream, const Task& task, const Status& status);
/// In place of the task's work, where its device is in a fault or has left the task's epoch.
void drop(Stream& stream, const Task& task);

/// After the points of a task that waits were reached: a fault, if one was dropped instead of done.
void pass_points(Machine& machine, Stream& stream, const Task& task);
/// After the word of a task that waits for one has come as far as asked (it is `seen`): a fault, if
/// it was lost.
void pass_word(Machine& machine, Stream& stream, const Task& task, std::uint64_t seen);

}  // namespace ember::inline v0::driver::sim
