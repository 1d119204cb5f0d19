// Floating-point numbers and addresses as text: the one place for it. No locale decides what they
// look like, and no stream is involved: streams rest on objects that a program has once per C++
// runtime, and a library whose runtime is linked statically meets those of another one.
#pragma once

#include <string>

namespace ember::inline v0 {

/// As printf's %.<digits>g: so many significant digits, without zeros behind them, and with an
/// exponent for very large and very small numbers. "nan", "-nan", "inf" and "-inf".
std::string number_text(double number, int digits = 6);

/// As printf's %.<places>f: so many digits behind the point.
std::string fixed_text(double number, int places);

/// As printf's %.<places>e: one digit before the point, `places` behind it, and an exponent.
std::string scientific_text(double number, int places);

/// An address: "0x7f0012340000".
std::string address_text(const void* address);

}  // namespace ember::inline v0
