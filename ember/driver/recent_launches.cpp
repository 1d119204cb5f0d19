#include "ember/driver/recent_launches.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

#include "ember/base/stack.h"

namespace ember::inline v0::driver {

std::vector<RecentLaunch> LaunchRing::list() const {
  const std::size_t count = std::min<std::uint64_t>(next_, kept_.size());
  std::vector<RecentLaunch> made;
  made.reserve(count);
  for (std::uint64_t i = next_ - count; i < next_; ++i) made.push_back(kept_[i % kept_.size()]);
  return made;
}

const RecentLaunch* LaunchRing::find(std::uint64_t number) const noexcept {
  const std::size_t count = std::min<std::uint64_t>(next_, kept_.size());
  for (std::uint64_t i = next_ - count; i < next_; ++i)
    if (kept_[i % kept_.size()].number == number) return &kept_[i % kept_.size()];
  return nullptr;
}

void LaunchRing::resize(std::size_t room) {
  std::vector<RecentLaunch> all = list();
  if (all.size() > room) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(room));
  next_ = all.size();
  all.resize(room);
  kept_ = std::move(all);
}

std::string stream_name(const void* native) {
  if (native == nullptr) return "the default stream";
  char text[40];
  std::snprintf(text, sizeof text, "stream %p", native);
  return text;
}

std::string launch_place(const void* stream, std::uint64_t number, std::uint64_t stack) {
  std::string text = "number " + std::to_string(number) + " of " + stream_name(stream);
  if (stack != 0) text += ", enqueued at" + stack_mark(stack);
  return text;
}

Status parse_record_launches(const std::optional<std::string>& text, int& out) {
  int count = 0;
  if (text && !text->empty()) {
    const char* const end = text->data() + text->size();
    const auto [rest, error] = std::from_chars(text->data(), end, count);
    if (error != std::errc() || rest != end || count < 0 || count > kMostRecentLaunches)
      return Status(Code::invalid_value, "EMBER_RECORD_LAUNCHES='" + *text +
                                             "': expected how many operations to keep of each "
                                             "stream, 0 to " +
                                             std::to_string(kMostRecentLaunches));
  }
  out = count;
  return {};
}

}  // namespace ember::inline v0::driver
