#pragma once

#include <optional>
#include <string_view>

#include "base/errors.h"
#include "job/document/section.h"
#include "schema/table_spec.h"

namespace embers::job {

// A name with its hyper-parameters, as [optimizer] or as the inline table of an initializer or optimizer.
template <class Spec>
Spec read_spec(Section section) {
  Spec spec;
  section.read("name", spec.name);
  spec.params = section.read_params();
  return spec;
}

// The same for an optimizer, which may have a table `schedule` for its learning rate.
template <>
UpdateRuleSpec read_spec<UpdateRuleSpec>(Section section);

// A name alone, or an inline table { name = ..., parameters }.
template <class Spec>
std::optional<Spec> read_named(Section& section, std::string_view key) {
  const toml::node* const node = section.find(key);
  if (node == nullptr) return std::nullopt;
  if (node->is_string()) {
    Spec spec;
    spec.name = node->as_string()->get();
    return spec;
  }
  const toml::table* const table = node->as_table();
  if (table == nullptr || !table->contains("name")) {
    section.fail_at(key, fmt::format("'{}' must be a name, or a table {{ name = ..., parameters }}", key));
  }
  return read_spec<Spec>(section.below(*table, fmt::format("{} '{}'", section.title(), key), key));
}

}  // namespace embers::job
