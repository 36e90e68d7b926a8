"""``python -m slicing``: the command line (``slicing.command``)."""

from slicing.command import main

raise SystemExit(main())
