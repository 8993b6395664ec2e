"""The program that compiles a plugin, with limits on time and memory. The package starts it."""

import sys

# Started as a script, so that the folder of the package is on the path and nothing else of it is imported.
import _native  # type: ignore[import-not-found]

if __name__ == "__main__":
    sys.exit(_native.compile_as_asked(sys.argv[1:]))
