#include "perform/stage/dataset_fingerprint.h"

#include <algorithm>
#include <utility>

#include "base/fields.h"
#include "perform/link/json_payload.h"
#include "spec/plan/data_shares.h"

namespace tombolo::kernels {

template <class Archive>
void describe(Archive& a, DataFacts::File& file) {
  a.required("path", file.path);
  a.required("bytes", file.content.bytes);
  a.required("digest", file.content.digest);
}

template <class Archive>
void describe(Archive& a, DataFacts& facts) {
  a.optional("files", facts.files);
  a.required("evaluation_batches", facts.evaluation_batches);
  a.check(facts.evaluation_batches >= 0, "evaluation_batches", "must not be negative");
}

}  // namespace tombolo::kernels

namespace tombolo::stage {

kernels::Payload encode(const kernels::DataFacts& facts) {
  return link::json_payload(write_fields(facts));
}

Result<kernels::DataFacts> decode_data_facts(const kernels::Payload& payload) {
  constexpr size_t kBytesMax = 16 << 20;  // names and digests of some ten thousand files
  return read_fields<kernels::DataFacts>(
      TRY(link::read_json_payload(payload, "data facts", kBytesMax)), "data facts");
}

namespace {

// The rank at a position of the pipeline, as ranks are numbered (layout::Placement).
int32_t rank_at(const plan::Plan& plan, int32_t position, int32_t replica) {
  return position * plan.replicas() + replica;
}

bool whole_pipeline_computes(const plan::Plan& plan, int32_t replica) {
  for (int32_t position = 0; position < plan.parallelism.pipeline; ++position) {
    const cluster::Device& device = plan.device_of(rank_at(plan, position, replica));
    if (device.kind == cluster::DeviceKind::kEmulated) return false;
  }
  return true;
}

// Those that read the same files as this one and compute, itself included; ascending.
Result<std::vector<int32_t>> pipelines_with_the_same_files(const plan::Plan& plan,
                                                           int32_t replica) {
  std::vector<int32_t> pipelines;
  if (plan.data->of_tokens()) {
    for (const plan::DataReaders& readers : TRY(plan::data_readers(plan))) {
      if (std::ranges::binary_search(readers.pipelines, replica)) pipelines = readers.pipelines;
    }
  } else {
    for (int32_t r = 0; r < plan.replicas(); ++r) pipelines.push_back(r);
  }
  std::erase_if(pipelines, [&](int32_t each) { return !whole_pipeline_computes(plan, each); });
  return pipelines;
}

std::string content_of(const FileDigest& content) {
  return fmt::format("{} bytes with digest {}", content.bytes, content.digest.substr(0, 8));
}

// How the files of two ranks differ; empty: not at all. Paths are the Plan's, the same on all hosts.
std::string files_differ(const kernels::DataFacts& of_first, int32_t first,
                         const kernels::DataFacts& of_other, int32_t other) {
  if (of_first.files.size() != of_other.files.size()) {
    return fmt::format("{} files on rank {}, {} on rank {}", of_first.files.size(), first,
                       of_other.files.size(), other);
  }
  for (size_t i = 0; i < of_first.files.size(); ++i) {
    const auto &a = of_first.files[i], &b = of_other.files[i];
    if (a.content == b.content) continue;
    return fmt::format("{} has {} on rank {}, {} on rank {}", b.path, content_of(a.content), first,
                       content_of(b.content), other);
  }
  return "";
}

Status compare_ends(const plan::Plan& plan, int32_t rank, const kernels::DataFacts& of_first,
                    const kernels::DataFacts& own) {
  const int32_t first = rank_at(plan, 0, plan.ranks[static_cast<size_t>(rank)].replica);
  const std::string differ = files_differ(of_first, first, own, rank);
  if (!differ.empty()) {
    return unusable(
        fmt::format("the files of [data] on rank {} in {}, which reads inputs, and on rank {} in "
                    "{}, which reads targets, differ: {}",
                    first, plan.datacenter_of(first).name, rank, plan.datacenter_of(rank).name,
                    differ),
        "copies of the same files at the same paths of both hosts");
  }
  if (of_first.evaluation_batches == own.evaluation_batches) return {};
  return failed(fmt::format("rank {} has {} held-out batches, rank {} {}", first,
                            of_first.evaluation_batches, rank, own.evaluation_batches),
                "start every rank with the same Plan");
}

Status compare_pipelines(const plan::Plan& plan, int32_t rank, int32_t first,
                         const kernels::DataFacts& of_first, const kernels::DataFacts& own) {
  const std::string differ = files_differ(of_first, first, own, rank);
  if (differ.empty()) return {};
  const auto place = [&](int32_t r) {
    return fmt::format("rank {} in {} (replica {})", r, plan.datacenter_of(r).name,
                       plan.ranks[static_cast<size_t>(r)].replica);
  };
  return unusable(
      fmt::format(
          "the files of [data] on {} and on {} differ, and replicas train on one data set: {}",
          place(first), place(rank), differ),
      "copies of the same files at the same paths of both hosts; or token files in "
      "[[data.share]], which says who trains on what");
}

}  // namespace

Status agree_on_data(const plan::Plan& plan, int32_t rank, int64_t first_iteration,
                     kernels::Kernels& kernels, kernels::Messenger& messenger) {
  const layout::Placement& own = plan.ranks[static_cast<size_t>(rank)];
  if (!plan.data || !whole_pipeline_computes(plan, own.replica)) return {};
  const link::Tag tag{static_cast<uint64_t>(first_iteration), kernels::kDataTensor};
  kernels::DataFacts facts = TRY(kernels.data_facts());
  if (own.stage == 0) {
    const std::vector<int32_t> readers = TRY(pipelines_with_the_same_files(plan, own.replica));
    const int32_t first = rank_at(plan, 0, readers.front());
    for (const int32_t replica : readers) {
      if (first != rank || replica == own.replica) continue;
      TRY(messenger.send(rank_at(plan, 0, replica), tag, encode(facts)));
    }
    if (first != rank) {
      const kernels::DataFacts theirs =
          TRY(decode_data_facts(TRY(messenger.receive(first, tag)).payload));
      TRY(compare_pipelines(plan, rank, first, theirs, facts));
    }
  } else {
    const int32_t before = rank_at(plan, own.stage - 1, own.replica);
    kernels::DataFacts theirs = TRY(decode_data_facts(TRY(messenger.receive(before, tag)).payload));
    if (!facts.files.empty()) {
      TRY(compare_ends(plan, rank, theirs, facts));
    } else {
      kernels.expect_evaluation_batches(theirs.evaluation_batches);
      facts = std::move(theirs);
    }
  }
  if (own.stage + 1 >= plan.parallelism.pipeline) return {};
  return messenger.send(rank_at(plan, own.stage + 1, own.replica), tag, encode(facts));
}

}  // namespace tombolo::stage
