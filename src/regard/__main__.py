"""`python -m regard`, for torchrun and for machines whose PATH does not know the script."""

from regard.cli import main

if __name__ == "__main__":
    main()
