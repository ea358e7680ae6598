#include "perform/join/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::join {
namespace {

using testing::HasSubstr;

const Environment kMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Environment kTorch = {{"RANK", "2"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "0"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "none"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kStep = {{"SLURM_PROCID", "1"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_ID", "0"}};
// What a batch script sees: the allocation's numbers, and no step.
const Environment kBatch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}};

// The second wins where both have a variable, as an inner launcher does.
Environment joined(Environment outer, const Environment& inner) {
  for (const auto& [name, value] : inner) outer[name] = value;
  return outer;
}

struct Case {
  const char* what;
  Environment environment;
  std::optional<LaunchedRank> expected;
};

TEST(LaunchEnvironment, TheInnermostLauncherCounts) {
  const LaunchedRank mpi{.launcher = "Open MPI", .rank = 3, .ranks = 4, .local_rank = 1};
  const LaunchedRank torch{.launcher = "torchrun",
                           .rank = 2,
                           .ranks = 4,
                           .local_rank = 0,
                           .rendezvous_host = "127.0.0.1",
                           .rendezvous_port = 29501};  // torchrun's store sits at 29500
  const LaunchedRank slurm{.launcher = "Slurm", .rank = 1, .ranks = 2, .local_rank = 1};
  const LaunchedRank hand{
      .launcher = "RANK and WORLD_SIZE", .rank = 1, .ranks = 2, .local_rank = 1};
  LaunchedRank torch_without_store = torch;
  torch_without_store.rendezvous_port = 29500;
  LaunchedRank mpi_with_master = mpi;
  mpi_with_master.rendezvous_host = "10.77.0.1";
  mpi_with_master.rendezvous_port = 4000;

  const Case cases[] = {
      {"nothing at all", {}, std::nullopt},
      {"other variables", {{"PATH", "/bin"}, {"LOCAL_RANK", "0"}}, std::nullopt},
      {"mpirun", kMpi, mpi},
      {"torchrun", kTorch, torch},
      {"torchrun without its own store",
       joined(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), torch_without_store},
      {"srun", kStep, slurm},
      {"srun that does not count the step's tasks",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_STEP_ID", "7"}},
       slurm},
      {"numbers by hand", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, hand},
      {"torchrun inside mpirun", joined(kMpi, kTorch), torch},
      {"torchrun inside srun", joined(kStep, kTorch), torch},
      {"mpirun inside a step of Slurm, as on several nodes", joined(kStep, kMpi), mpi},
      {"mpirun inside a batch script", joined(kBatch, kMpi), mpi},
      {"mpirun with a rendezvous by hand",
       joined(kMpi, {{"MASTER_ADDR", "10.77.0.1"}, {"MASTER_PORT", "4000"}}), mpi_with_master},
      {"numbers by hand that agree with mpirun's",
       joined(kMpi, {{"RANK", "3"}, {"WORLD_SIZE", "4"}}), mpi},
      {"a size by hand that agrees with the step's", joined(kStep, {{"WORLD_SIZE", "2"}}), slurm},
      {"a batch script", kBatch, std::nullopt},
      {"a batch script that numbers its processes itself",
       joined(kBatch, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}), hand},
      {"an allocation's shell", {{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}, std::nullopt},
      {"an allocation's interactive step",
       joined(kBatch, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
       std::nullopt},
      {"a step of one task",
       joined(kBatch, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}), std::nullopt},
      {"mpirun with one rank",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
       LaunchedRank{.launcher = "Open MPI"}},
  };
  for (const Case& c : cases) {
    const auto launched = launched_rank(c.environment);
    ASSERT_TRUE(launched) << c.what << ": " << launched.error().text();
    EXPECT_EQ(*launched, c.expected) << c.what;
  }
}

TEST(LaunchEnvironment, AContradictionNamesBothVariablesAndTheirValues) {
  const struct {
    Environment environment;
    const char* words;
  } cases[] = {
      {joined(kMpi, {{"RANK", "0"}}), "RANK = 0 contradicts OMPI_COMM_WORLD_RANK = 3"},
      {joined(kMpi, {{"RANK", "3"}, {"WORLD_SIZE", "8"}}),
       "WORLD_SIZE = 8 contradicts OMPI_COMM_WORLD_SIZE = 4"},
      {joined(kStep, {{"RANK", "0"}}), "RANK = 0 contradicts SLURM_PROCID = 1"},
      {joined(kStep, {{"WORLD_SIZE", "4"}}), "WORLD_SIZE = 4 contradicts SLURM_STEP_NUM_TASKS = 2"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK = 2 does not lie below WORLD_SIZE = 2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "RANK = 0 does not lie below WORLD_SIZE = 0"},
      {{{"RANK", "2"}}, "RANK = 2 is set, but WORLD_SIZE is not"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE = 2 is set, but RANK is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}},
       "OMPI_COMM_WORLD_SIZE = 2 is set, but OMPI_COMM_WORLD_RANK is not"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}},
       "SLURM_PROCID = 0 is set, but SLURM_NTASKS is not"},
      {joined(kTorch, {{"RANK", "two"}}), "RANK = \"two\" is not a number"},
      {joined(kTorch, {{"RANK", "-1"}}), "RANK = \"-1\" is not a number"},
      {joined(kTorch, {{"WORLD_SIZE", "4x"}}), "WORLD_SIZE = \"4x\" is not a number"},
      {joined(kTorch, {{"WORLD_SIZE", ""}}), "WORLD_SIZE = \"\" is not a number"},
      {joined(kTorch, {{"MASTER_PORT", "65536"}}), "MASTER_PORT = \"65536\" is not a number"},
      {joined(kTorch, {{"MASTER_PORT", "65535"}}), "MASTER_PORT = 65535 leaves no port"},
      {joined(kMpi, {{"OMPI_COMM_WORLD_RANK", "99999999999999999999"}}), "is not a number"},
  };
  for (const auto& c : cases) {
    const auto launched = launched_rank(c.environment);
    ASSERT_FALSE(launched) << c.words;
    EXPECT_EQ(launched.error().exit_code(), 2);
    EXPECT_THAT(launched.error().message, HasSubstr(c.words));
    EXPECT_FALSE(launched.error().hint.empty()) << c.words;
  }
}

}  // namespace
}  // namespace tombolo::join
