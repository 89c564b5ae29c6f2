# SPDX-License-Identifier: Apache-2.0
# A program of the communication library runs under a real Slurm of two nodes with srun --mpi=pmix, refuses without, and dies as a job.
. "$(dirname "$0")/lib.sh"
need $bin/net_ring $bin/net_probe $bin/hello
sh tests/system/net/slurm.sh "$PWD/$bin" >build/full/slurm.txt 2>&1
case $? in
  0) cat build/full/slurm.txt && shown "$(tail -n 1 build/full/slurm.txt)" ;;
  77) missing "$(tail -n 1 build/full/slurm.txt)" ;;
  *) cat build/full/slurm.txt && failed "it does not: build/full/slurm.txt" ;;
esac
