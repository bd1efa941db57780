"""`python -m askless` is the command `askless`."""

from askless.cli import main

if __name__ == "__main__":
    main()
