#pragma once

// Whoever waits is counted elsewhere.
inline void waits(Driver& machine) { machine.stream_synchronize(0); }
inline void allowed(Source& source_) { source_.device_synchronize(0); }
