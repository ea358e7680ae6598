// What `tombolo roofline` measures of a device that computes here, before a law makes a device of
// it (predict/cost/device_from_rates.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "base/units.h"
#include "spec/model/model.h"
#include "spec/plan/settings.h"

namespace tombolo::plan {

// A matrix product [rows, depth] x [depth, columns].
struct MeasuredProduct {
  Precision precision = Precision::kFp32;
  int64_t rows = 0, columns = 0, depth = 0;
  FlopsPerSecond rate;  // median

  bool operator==(const MeasuredProduct&) const = default;
};

// One layer of a decoder, forward and backward together. Medians.
struct MeasuredLayer {
  model::Model model;  // of one layer
  int64_t micro_batch = 1;
  Seconds whole;
  Seconds attention;  // of it, scores to weighted values, with what the kernels do around them

  bool operator==(const MeasuredLayer&) const = default;
};

// Of one rank. With one thread seconds are of CPU time, which other processes disturb little, else
// of the clock.
struct DeviceRates {
  int64_t threads = 1;
  Precision precision = Precision::kFp32;  // of the layers
  Bytes memory;                            // of a rank, where every core has one
  BytesPerSecond stream;                   // c = a + b over arrays larger than the caches, median
  std::vector<MeasuredProduct> products;   // in all precisions that the CPU computes
  std::vector<MeasuredLayer> layers;

  bool operator==(const DeviceRates&) const = default;
};

template <class Archive>
void describe(Archive& a, MeasuredProduct& product) {
  a.required("precision", product.precision);
  a.required("rows", product.rows);
  a.required("columns", product.columns);
  a.required("depth", product.depth);
  a.required("rate", product.rate);
  a.check(product.rate.value > 0, "rate", "must be positive");
}

template <class Archive>
void describe(Archive& a, MeasuredLayer& layer) {
  a.required("model", layer.model);
  a.required("micro_batch", layer.micro_batch);
  a.required("whole", layer.whole);
  a.required("attention", layer.attention);
  a.check(layer.attention.value > 0 && layer.attention < layer.whole, "attention",
          "must be less than `whole`, the time of the layer that it is part of",
          "the command again while the machine is idle: other work disturbed one of the two");
}

template <class Archive>
void describe(Archive& a, DeviceRates& rates) {
  a.required("threads", rates.threads);
  a.required("precision", rates.precision);
  a.required("memory", rates.memory);
  a.required("stream", rates.stream);
  a.required("products", rates.products);
  a.required("layers", rates.layers);
  a.check(rates.memory.value > 0, "memory", "must be positive");
  a.check(rates.stream.value > 0, "stream", "must be positive");
  a.check(!rates.products.empty(), "products", "must not be empty");
  a.check(!rates.layers.empty(), "layers", "must not be empty");
}

}  // namespace tombolo::plan
