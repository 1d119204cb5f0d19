// What the shared library gives to others. Everything is compiled with hidden visibility; what
// users may call or catch is marked, and ember/exports.map lets nothing else out: neither ember's
// own parts, nor those of a C++ runtime that was linked statically.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "ember needs C++20: compile with -std=c++20, of g++ 11, clang 14 or later"
#endif

/// On functions and variables of public headers that are defined in a source file, on classes that
/// have members defined in one, and on classes that are thrown, or derived from, across the
/// boundary: their type information must be one. (Inline functions stay hidden all the same.)
#define EMBER_API [[gnu::visibility("default")]]

/// The same for what is no part of the interface and is exported for ember's own tests and
/// benchmarks, which run on the library as users have it. Not in installed headers.
#define EMBER_TEST_API EMBER_API
