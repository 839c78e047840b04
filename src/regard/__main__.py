"""`python -m regard`, for torchrun and for machines where the `regard` script is not on the PATH."""

from regard.cli import main

if __name__ == "__main__":
    main()
