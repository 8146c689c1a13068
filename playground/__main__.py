"""python -m playground: see playground.cli."""

import sys

if __name__ == "__main__":
    try:
        from playground.cli import main

        sys.exit(main())
    except KeyboardInterrupt:  # while modules are still being imported
        sys.exit(130)
