"""`python -m pykernels` is the command `pykernels`."""

from pykernels.cli import main

if __name__ == "__main__":
    main(prog_name="pykernels")
