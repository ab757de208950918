#include "apps/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace embers {
namespace {

const char* name(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::kOk:
      return "ok";
    case Finding::Verdict::kWarning:
      return "warning";
    case Finding::Verdict::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

void Findings::ok(std::string check, std::string what, nlohmann::json figures) {
  add({std::move(check), Finding::Verdict::kOk, std::move(what), "", std::move(figures)});
}

void Findings::failed(std::string check, std::string what, std::string advice) {
  add({std::move(check), Finding::Verdict::kFailed, std::move(what), std::move(advice)});
}

bool Findings::has_failed() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Finding& f) { return f.verdict == Finding::Verdict::kFailed; });
}

std::string Findings::text() const {
  size_t width = 0;
  for (const Finding& f : all_) width = std::max(width, f.check.size());
  std::string text;
  for (const Finding& f : all_) {
    text += fmt::format("{:<8} {:<{}}  {}\n", name(f.verdict), f.check, width, f.what);
    if (!f.advice.empty()) text += fmt::format("{:>{}}{}\n", "-> ", width + 14, f.advice);
  }
  return text;
}

nlohmann::json Findings::json() const {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& f : all_) {
    nlohmann::json one = f.figures;
    one.update({{"check", f.check}, {"verdict", name(f.verdict)}, {"what", f.what}, {"advice", f.advice}});
    checks.push_back(std::move(one));
  }
  return {{"ok", !has_failed()}, {"checks", checks}};
}

}  // namespace embers
