// Text that somebody else gave, as JSON and terminals may have it: the one place for it.
#pragma once

#include <string>
#include <string_view>

namespace ember::inline v0 {

/// Whether the bytes are UTF-8, as JSON wants it: no overlong forms, no surrogates.
bool is_utf8(std::string_view text) noexcept;

/// Paths and names may be any bytes: where they are not UTF-8, with "?" for each byte that is not
/// ASCII.
std::string as_utf8(std::string_view text);

/// The same for a line of a terminal: "?" also for each control character.
std::string as_line(std::string_view text);

/// Adds a string of JSON, in quotes, which may also stand in the script of a page: "<" is written
/// as its code, so that no "</script>" ends it. What is not UTF-8 as by as_utf8().
void append_json_text(std::string& out, std::string_view text);

}  // namespace ember::inline v0
