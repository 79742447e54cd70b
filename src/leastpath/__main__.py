"""`python -m leastpath` is the `leastpath` command."""

from leastpath.commands.cli import main

if __name__ == "__main__":
    main()
