/* What every MPI program does first, and the ways in which one may end. Arguments:
     alone=        first: nothing is sent between ranks
     hold=FILE     goes on adding up over all ranks until the file is there
     fail=RANK     that rank exits with 7
     abort=RANK    that rank calls MPI_Abort with 9 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int mine = rank + 1;
  const int alone = argc > 1 && strcmp(argv[1], "alone=") == 0;
  if (!alone) MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("hello from %d of %d in pod %s, sum %d\n", rank, size, getenv("MLK_RANK"), sum);
  fflush(stdout);
  for (int i = 1; i < argc; ++i) {
    const char* value = strchr(argv[i], '=');
    if (value == NULL) return 64;
    ++value;
    if (strncmp(argv[i], "fail=", 5) == 0 && atoi(value) == rank) exit(7);
    if (strncmp(argv[i], "abort=", 6) == 0 && atoi(value) == rank) MPI_Abort(MPI_COMM_WORLD, 9);
    for (int there = 0; strncmp(argv[i], "hold=", 5) == 0 && there < size; usleep(20000)) {
      mine = access(value, F_OK) == 0;
      MPI_Allreduce(&mine, &there, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  MPI_Finalize();
  return 0;
}
