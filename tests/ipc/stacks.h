// Where threads of this process and of those beside it stand, where a test does not come to its
// end: there need be no debugger.
#pragma once

#include <sys/types.h>

namespace ember::test {

/// Threads write their stacks on stderr when show_stacks() asks them to. With `watch`, a test that
/// is not over two minutes after its begin, or after the last call of still_alive(), has all do so,
/// and ends the process.
void install_stacks(bool watch);
void still_alive();

/// Asks every thread of a process that has called install_stacks(), and waits a moment.
void show_stacks(pid_t process);

/// A process whose stacks are shown with this one's, until it is forgotten.
void remember_process(pid_t process);
void forget_process(pid_t process);

}  // namespace ember::test
