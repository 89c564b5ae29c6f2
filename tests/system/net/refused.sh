#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Several processes that cannot find each other refuse to be as many jobs of one: the environment is that of srun without
# PMIx, of a launcher with another protocol, of a PMIx launcher whose server is not there.
# Usage: refused.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"

for program in "$ring" "$bin/hello"; do
  call env SLURM_NTASKS=4 "$program" 5
  is 125 && tells 'srun --mpi=pmix' && lines 1
  call env SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$program" 5
  is 125 && tells 'srun --mpi=pmix' && lines 1
  call env SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 "$program" 5
  is 125 && lines 0 # process 0 says it
  call env SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$program" 5
  is 0 && lines 0
  call env PMI_SIZE=2 PMI_RANK=0 "$program" 5
  is 125 && tells 'without PMIx' && lines 1
  # `ayatori run` makes the processes itself, whatever it was started by.
  call env SLURM_NTASKS=4 PMI_SIZE=2 PMIX_RANK=0 PMIX_NAMESPACE=none "$bin/ayatori" run -n 2 "$program" 5
  is 0 && lines 0
done
call env PMIX_NAMESPACE=none PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$bin/hello" 5
is 125 && tells 'libpmix2|PMIx server' && lines 1
call env PMIX_NAMESPACE=none PMIX_RANK=0 "$bin/hello" 5
is 0 && lines 0 # whose size nobody tells: an environment that was inherited
call env PMIX_NAMESPACE=none PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=1 "$bin/hello" 5
is 0 && lines 0
# No library, or no server.
call env PMIX_NAMESPACE=none PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$ring" 5
is 125 && tells 'libpmix2|PMIx server' && lines 1
finish
