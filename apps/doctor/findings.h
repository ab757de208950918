#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace embers {

// What came of one check.
struct Finding {
  enum class Verdict : uint8_t {
    kOk,
    kWarning,  // it works, but not as well as it could
    kFailed,
  };
  std::string check;  // what was looked at, as "master: bandwidth"
  Verdict verdict = Verdict::kOk;
  std::string what;    // was found
  std::string advice;  // what to do; "" where nothing is
  nlohmann::json figures = nlohmann::json::object();
};

// All of them, in order.
class Findings {
 public:
  void add(Finding finding) { all_.push_back(std::move(finding)); }
  void ok(std::string check, std::string what, nlohmann::json figures = nlohmann::json::object());
  void failed(std::string check, std::string what, std::string advice = "");
  bool has_failed() const;
  // For people: a line each, and what to do below it.
  std::string text() const;
  // {"ok", "checks": [{"check", "verdict", "what", "advice", ...}]}
  nlohmann::json json() const;
  const std::vector<Finding>& all() const { return all_; }

 private:
  std::vector<Finding> all_;
};

}  // namespace embers
