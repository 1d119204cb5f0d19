#pragma once

// What is_simulated says is for others to ask.
inline bool asks() { return is_simulated(); }
inline bool asks(const Driver& driver) { return driver.simulated(); }
