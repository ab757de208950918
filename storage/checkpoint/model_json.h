#pragma once

#include <nlohmann/json.hpp>

#include "schema/table_spec.h"

namespace embers::storage {

// A table and a dense parameter as a checkpoint's manifest describes them. Reading throws
// nlohmann::json::exception for what writing never makes.
nlohmann::json table_to_json(const TableSpec& table);
TableSpec table_from_json(const nlohmann::json& json);

nlohmann::json dense_to_json(const DenseParam& param);
DenseParam dense_from_json(const nlohmann::json& json);

}  // namespace embers::storage
