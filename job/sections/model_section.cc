#include "job/sections/model_section.h"

#include "job/document/section.h"

namespace embers::job {

void read(Section& section, ModelSection& model) {
  section.read("name", model.name);
  section.read("library", model.library);
  if (model.name.empty() && model.library.empty()) {
    section.fail_at("name", "needs a 'name': the model to train");
  }
  model.params = to_json(section.table());
  model.params.erase("name");
  model.params.erase("library");
}

}  // namespace embers::job
