"""`python -m lethe`."""

from lethe.cli import main

if __name__ == "__main__":
    main()
