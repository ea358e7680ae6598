// PyTorch's execution trace and Kineto's trace of the same run, joined into one Chakra trace.
//
// The execution trace (ExecutionTraceObserver) knows operators, who called whom, and their tensors;
// Kineto knows when each ran and which kernels it launched. They share the ids of recorded
// functions (rf_id), which Kineto calls "Record function id", or, before PyTorch wrote that, "External
// id". What comes out:
//
// - a host node per operator. Its duration is its own: without that of operators it called and
//   without waiting for the device. It depends on the host node before it on its thread; after a
//   pause of more than a millisecond also on the one that ended last on other threads.
// - a device node per kernel or copy whose launching operator is known, with its duration. It
//   depends on that operator and on the node before it on its stream. NCCL's kernels become
//   collectives, sends and receives, their sizes from the operator's tensors.
// - after a call that synchronizes, the next host node depends on what the device had finished.
//
// So every edge leads from what began earlier to what began later. The converter of
// mlcommons/chakra joins the two in the same way, but orders kernels by when they were launched,
// not by stream.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "spec/chakra/chakra_message.h"

namespace tombolo::chakra {

struct PytorchTrace {
  ChakraMetadata metadata;
  std::vector<ChakraNode> nodes;   // ids ascend
  std::vector<std::string> notes;  // what could not be joined, for people
};

// Files may be gzipped. Unusable, naming the file: not JSON, not such a trace, two nodes with one
// id, nothing that the two have in common. Cost: O(events log events).
Result<PytorchTrace> read_pytorch(const std::string& execution_trace, const std::string& kineto);
Result<PytorchTrace> join_pytorch(const Value& execution_trace, const std::string& trace_name,
                                  const Value& kineto, const std::string& kineto_name);

}  // namespace tombolo::chakra
