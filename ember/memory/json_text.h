// Texts within JSON.
#pragma once

#include <string>
#include <string_view>

namespace ember::inline v0::memory {

/// Appends a text (UTF-8) as a string of JSON.
void append_json(std::string& to, std::string_view text);

}  // namespace ember::inline v0::memory
