// Overlap inside one strand: products are cut so that they overlap their own communication.
//
// A gather travels in pieces, and the product that needs it computes each piece while the next one
// travels; a scatter of a product leaves likewise, piece after piece. Intra-batch overlap, as
// MegaScale and Flux do it for tensor parallelism. Smaller products reach less of a device's peak:
// `loss` is what all pieces together take longer than the whole.
// Source: Jiang et al., "MegaScale", NSDI 2024, section 3.2; the baseline "Intra-batch" of Wang et
// al. 2024 (DHelix), section 6.1.
#pragma once

#include <cstddef>

#include "predict/strand/dag.h"
#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

struct CutOptions {
  size_t pieces = 4;
  double loss = 0;  // of 1
};

// The strand with every product cut that waits for nothing but a gather of tensor parallelism, or
// that a scatter waits for (if frameworks already make that scatter asynchronous, the product stays
// whole). Its communication is then asynchronous. A product between a gather and a scatter is cut
// with the gather.
Dag cut_products(const Dag& dag, const CutOptions& options);

// Both strands one after the other, each alone, with products cut.
double cut_seconds(const StrandPair& pair, const OverlapTable& overlap, const CutOptions& options);

}  // namespace tombolo::strand
