#include "signatures.h"

#include <algorithm>
#include <charconv>

#include "define.h"

namespace ember::python {
namespace {

/// How deep a character leads into brackets; strings in a signature hold none.
int depth_of(char c) {
  if (c == '(' || c == '[') return 1;
  return c == ')' || c == ']' ? -1 : 0;
}

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
    text.erase(at, part.size());
  return text;
}

/// Where the bracket that is open at the beginning of `text` is closed.
std::size_t closing(std::string_view text) {
  int depth = 1;
  std::size_t at = 0;
  while (at < text.size() && (depth += depth_of(text[at])) > 0) ++at;
  return at;
}

/// "\0" stands for the first of the defaults that are objects.
std::string text_of_default(const std::string& written, nb::handle objects) {
  if (!written.starts_with('\\')) return written;
  std::size_t place = 0;
  std::from_chars(written.data() + 1, written.data() + written.size(), place);
  return nb::repr(objects[place]).c_str();
}

Parameter parameter_of(const std::string& text, nb::handle objects) {
  Parameter made;
  const std::vector<std::string> parts = split_outside(text, " = ");
  if (parts.size() > 1) made.default_value = text_of_default(parts[1], objects);
  const std::size_t colon = parts[0].find(": ");
  made.name = parts[0].substr(0, colon);
  if (colon != std::string::npos) made.type = parts[0].substr(colon + 2);
  return made;
}

bool is_for_numpy(const Parameter& parameter) {
  return std::any_of(std::begin(kOtherNames), std::end(kOtherNames),
                     [&](const OtherName& name) { return parameter.name == name.other; });
}

std::optional<Signature> parsed(const std::string& text, nb::handle objects) {
  const std::size_t open = text.find('(');
  const std::string_view rest = std::string_view(text).substr(open + 1);
  const std::size_t close = closing(rest);
  Signature made;
  if (const std::size_t arrow = rest.find("-> ", close); arrow != std::string::npos)
    made.result = rest.substr(arrow + 3);
  bool keyword_only = false;
  for (const std::string& part : split_outside(rest.substr(0, close), ", ")) {
    if (part.empty() || part == "/") continue;
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    Parameter parameter = parameter_of(part, objects);
    // That of what makes tensors is no part of a schema.
    if (parameter.name == "requires_grad" && keyword_only) continue;
    if (part.starts_with('*') || is_for_numpy(parameter)) return std::nullopt;
    parameter.keyword_only = keyword_only;
    made.parameters.push_back(std::move(parameter));
  }
  return made;
}

}  // namespace

std::vector<std::string> split_outside(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    depth += depth_of(text[at]);
    if (depth != 0 || text.substr(at, separator.size()) != separator) continue;
    parts.emplace_back(text.substr(start, at - start));
    start = at + separator.size();
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

std::vector<Signature> signatures_of(nb::handle function) {
  std::vector<Signature> found;
  const nb::object rows = nb::getattr(function, "__nb_signature__", nb::none());
  if (rows.is_none()) return found;
  for (const nb::handle row : nb::borrow<nb::sequence>(rows)) {
    const nb::object objects = nb::len(row) > 2 ? nb::object(row[2]) : nb::none();
    const std::string text =
        without(without(nb::cast<std::string>(row[0]), "ember._C."), "collections.abc.");
    if (std::optional<Signature> made = parsed(text, objects)) found.push_back(std::move(*made));
  }
  return found;
}

}  // namespace ember::python
